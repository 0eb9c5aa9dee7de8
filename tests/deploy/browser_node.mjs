// Runs the page's modules under Node, for test_browser_fidelity.py: reads a request as JSON from stdin, prints the answer.
//
//     {"page": FOLDER, "id": ..., "xml": FILE, "steps": {"states", "actions"}} -> observations, rewards, ...
//     {"page": FOLDER, "id": ..., "xml": FILE, "episodes": {"policy": FILE, "target", "seeds", "steps"}} -> returns, ...
//
// Before step i, the environment is placed in states[i], positions and velocities, if there are as many.

import fs from "node:fs";
import { pathToFileURL } from "node:url";

const request = JSON.parse(fs.readFileSync(0, "utf8"));
const load = (name) => import(pathToFileURL(`${request.page}/${name}`));
const { Environment } = await load("environment.js");
const mujoco = await (await load("runtimes/mujoco.js")).default();
const environment = new Environment(mujoco, fs.readFileSync(request.xml, "utf8"), request.id);
const answer = { starts: [0, 7].map((seed) => [...environment.reset(seed)]) };

if (request.steps) {
  const { states, actions } = request.steps;
  answer.steps = actions.map((action, i) => {
    if (i < states.length) environment.place(...states[i]);
    const { observation, reward, terminated } = environment.step(action);
    return { observation: [...observation], reward, terminated };
  });
}

if (request.episodes) {
  const ort = await load("runtimes/ort.wasm.min.mjs");
  ort.env.wasm.numThreads = 1;
  const { Policy } = await load("policy.js");
  const { policy: file, target, seeds, steps } = request.episodes;
  const { metadata } = JSON.parse(fs.readFileSync(`${request.page}/page.json`, "utf8")).agents[0];
  const policy = await Policy.load(ort, new Uint8Array(fs.readFileSync(file)), metadata);
  answer.returns = [];
  answer.microseconds = [];
  for (const seed of seeds) {
    policy.reset(target);
    let [observation, reward, earned, over] = [environment.reset(seed), 0, 0, false];
    for (let step = 0; step < steps && !over; step++) {
      const after = environment.step(await policy.act(observation, reward));
      [observation, reward, over] = [after.observation, after.reward, after.terminated];
      earned += reward;
    }
    answer.returns.push(earned);
    answer.microseconds.push(policy.microseconds);
  }
}
process.stdout.write(JSON.stringify(answer));
