// Has OpenAI's SDK meet connections that break, and a service that is killed. Prints what it saw, a name=value on each
// line; `please WHAT NAME` asks the test for something, which says on standard input when it is done.
//
//     interruptions.mjs NODE_MODULES URL KEY URL_THAT_CAN_BE_CUT
import assert from "node:assert";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [modules, url, apiKey, frail] = process.argv.slice(2);
const { default: OpenAI } = createRequire(modules + "/")("openai");
const model = "Forecaster";
const weather = { type: "function", name: "get_weather", parameters: { type: "object" } };
const say = (name, value) => console.log(`${name}=${value}`);
const please = (what, name) => console.log(`please ${what} ${name}`);
const told = createInterface({ input: process.stdin });
const lines = told[Symbol.asyncIterator]();
const done = async () => assert.equal((await lines.next()).value, "done");
const client = (name, more) => new OpenAI({ baseURL: name.includes("cut") ? frail : url, apiKey, ...more });

// Reads a stream until it breaks, takes it up behind the last event, and says both parts of the text.
async function streamed(name) {
  const api = client(name);
  const input = `slowly javascript ${name}`;
  const texts = ["", ""];
  let response, seen = -1, broke = "no", last;
  const heard = (event, part) => {
    assert(event.sequence_number > seen, `${event.sequence_number} after ${seen}`);
    seen = event.sequence_number;
    last = event.type;
    if (event.type === "response.output_text.delta") texts[part] += event.delta;
  };
  try {
    for await (const event of await api.responses.create({ model, input, stream: true })) {
      response ??= event.response.id;
      heard(event, 0);
      if (event.type !== "response.output_text.delta") continue;
      please(name, input);
      if (name === "closed") break; // closes the stream
    }
  } catch (e) {
    broke = e.constructor.name;
  }
  await done();
  const rest = await api.responses.retrieve(response, { stream: true, starting_after: seen });
  for await (const event of rest) heard(event, 1);
  assert.equal(last, "response.completed");
  assert.equal((await api.responses.retrieve(response)).output_text, texts.join(""));
  say(name, [broke, ...texts].join("|"));
}

// Waits for an answer while the connection breaks, and says whether it was that of a run which was there.
async function plain(name, { keyed = true, ...more } = {}) {
  const input = `slowly javascript ${name}`;
  const headers = keyed ? { "Idempotency-Key": `javascript-${name}` } : {};
  please(name, input);
  const { data, response } = await client(name, more).responses.create({ model, input }, { headers }).withResponse();
  await done();
  say(name, `${data.output_text}|${response.headers.get("idempotent-replayed") ?? "false"}`);
}

// Goes on with a response, without a key, while the connection breaks: with a message, or the output of a call.
async function again(name, more) {
  const api = client(name);
  const input = `slowly javascript ${name}`;
  const asked = await api.responses.create({
    model, input: more.tools ? "weather" : `javascript ${name}`, tools: [weather],
  });
  const outputs = asked.output.filter((item) => item.type === "function_call")
    .map((item) => ({ type: "function_call_output", call_id: item.call_id, output: input }));
  please(name, input);
  const answer = await api.responses.create({ model, previous_response_id: asked.id, input: outputs, ...more });
  await done();
  say(name, answer.output_text);
}

// Goes on with a conversation, without a key, while the connection breaks.
async function chained(name, previous) {
  const api = client(name);
  const input = `slowly javascript ${name}`;
  const first = await api.responses.create({ model, input: `javascript ${name}` });
  please(name, input);
  try {
    await api.responses.create({ model, input, ...previous(first) });
  } catch (e) {
    say(name, `${e.status} ${e.code}`);
  }
  please("let-go", input);
  await done();
  await done();
}

await streamed("closed");
await streamed("cut");
await streamed("killed");
await plain("cut-plain");
await plain("killed-plain", { maxRetries: 6 });
await plain("cut-keyless", { keyed: false });
await again("cut-chained", { input: "slowly javascript cut-chained" });
await again("cut-output", { tools: [weather] });
await chained("cut-conversation", (first) => ({ conversation: first.conversation.id }));
told.close();
