"""The results of testing a mixer against the law, clause by clause."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from decision_rnn.testing.law import Clause, Failure

Outcome = Literal["passed", "broken", "not tried"]


@dataclass(frozen=True)
class Finding:
    """The result of one clause.

    Attributes:
        name: The clause's name, such as `all_modes_agree`.
        statement: What it requires, in a sentence.
        outcome: `passed`, `broken` or `not tried`.
        failure: The smallest failing case of a broken clause.
        reason: Why a clause was not tried.
    """

    name: str
    statement: str
    outcome: Outcome
    failure: Failure | None = None
    reason: str = ""

    @classmethod
    def of(cls, clause: Clause, outcome: Outcome, failure: Failure | None = None, reason: str = "") -> "Finding":
        """The result of that clause."""
        statement = (clause.__doc__ or "").partition("\n")[0]
        return cls(clause.__name__, statement, outcome, failure, reason)

    def __str__(self) -> str:
        lines = [f"{self.outcome:9}  {self.name}: {self.statement if self.outcome != 'not tried' else self.reason}"]
        return "\n".join([*lines, *(f"{'':9}    {line}" for line in str(self.failure or "").splitlines())])


@dataclass(frozen=True)
class Report:
    """The results of all clauses of the law, in order.

    Attributes:
        mixer: The mixer's name.
        findings: The result of each clause.
    """

    mixer: str
    findings: Sequence[Finding]

    @property
    def broken(self) -> list[Finding]:
        """The clauses that do not hold."""
        return [finding for finding in self.findings if finding.outcome == "broken"]

    @property
    def obeys(self) -> bool:
        """Whether none of the clauses that were tried is broken."""
        return not self.broken

    def __getitem__(self, name: str) -> Finding:
        """The result of the clause of that name; KeyError if there is none."""
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(name)

    def __str__(self) -> str:
        count = {outcome: [f.outcome for f in self.findings].count(outcome) for outcome in ("passed", "not tried")}
        untried = f", {count['not tried']} not tried" if count["not tried"] else ""
        verdict = f"breaks {len(self.broken)} of {len(self.findings)} clauses" if self.broken else "obeys the law"
        return "\n".join([f"{self.mixer} {verdict}: {count['passed']} passed{untried}", "", *map(str, self.findings)])


class LawBrokenError(AssertionError):
    """A mixer breaks the law; the message names the first broken clause and its smallest failing case.

    Attributes:
        report: The results of all clauses.
        finding: The result of the first broken clause.
    """

    def __init__(self, report: Report) -> None:
        self.report, self.finding = report, report.broken[0]
        first = f"{report.mixer} breaks the clause {self.finding.name}: {self.finding.statement}"
        super().__init__(f"{first}\n{self.finding.failure}\n\n{report}")
