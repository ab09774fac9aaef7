// Holds conversations with the service by OpenAI's SDK. Prints what it saw, a name=value on each line.
//
//     conversation.mjs NODE_MODULES URL KEY
import assert from "node:assert";
import { createRequire } from "node:module";

const { default: OpenAI } = createRequire(process.argv[2] + "/")("openai");
const client = new OpenAI({ baseURL: process.argv[3], apiKey: process.argv[4] });
const model = "Forecaster";
const weather = {
  type: "function", name: "get_weather", description: "The weather of a place.", strict: true,
  parameters: {
    type: "object", properties: { location: { type: "string" } }, required: ["location"], additionalProperties: false,
  },
};
const say = (name, value) => console.log(`${name}=${String(value).replaceAll("\n", "|")}`);
const create = (input, more = {}) => client.responses.create({ model, input, ...more });

const first = await create("hello", { metadata: { who: "me" } });
say("text", first.output_text);
assert.equal(first.usage.total_tokens, 30);

const named = await create("My name is Ann.");
say("chained", (await create("What is my name?", { previous_response_id: named.id })).output_text);

const stream = client.responses.stream({ model, input: "count" });
let pieces = "";
const kinds = [];
for await (const event of stream) {
  kinds.push(event.type);
  if (event.type === "response.output_text.delta") pieces += event.delta;
}
assert.equal((await stream.finalResponse()).output_text, pieces);
assert.equal(kinds.at(-1), "response.completed");
say("streamed", pieces);

let asked = await create("How is the weather?", { tools: [weather] });
let call = asked.output[0];
say("call", `${call.name} ${call.arguments}`);
let output = { type: "function_call_output", call_id: call.call_id, output: "sunny" };
say("called", (await create([output], { previous_response_id: asked.id, tools: [weather] })).output_text);

// A client that keeps the conversation sends all of it.
const history = [{ role: "user", content: "How is the weather?" }];
asked = await create(history, { tools: [weather] });
call = asked.output[0];
output = { type: "function_call_output", call_id: call.call_id, output: "cloudy" };
say("stateless", (await create([...history, ...asked.output, output], { tools: [weather] })).output_text);

// until reads a response's events to their end.
async function until(id) {
  for await (const event of await client.responses.retrieve(id, { stream: true })) void event;
  return client.responses.retrieve(id);
}
const later = await create("later", { background: true });
assert(later.background);
say("background", (await until(later.id)).output_text);

const slow = await create("count slowly", { background: true });
await client.responses.cancel(slow.id);
say("cancelled", (await until(slow.id)).status);

say("inputs", (await client.responses.inputItems.list(first.id)).data[0].content[0].text);

const question = await create("/ask Which city?", { model: "Demo" });
say("question", question.output_text);
say("answered", (await create("Oslo", { model: "Demo", previous_response_id: question.id })).output_text);

const wanted = await create('/tool echo {"text":"x"}', { model: "Careful" });
const request = wanted.output[0];
assert.equal(request.type, "mcp_approval_request");
say("approval", request.name);
const no = { type: "mcp_approval_response", approval_request_id: request.id, approve: false, reason: "no" };
const after = await create([no], { model: "Careful", previous_response_id: wanted.id });
say("rejected", after.output_text.includes("rejected") ? "yes" : "no");

const failure = async (promise) => {
  try {
    await promise;
  } catch (e) {
    return e;
  }
};
say("missing", (await failure(client.responses.retrieve("resp_0123456789abcdef01234567"))).status);
const refused = await failure(create("x", { text: { verbosity: "low" } }));
say("refused", `${refused.status} ${refused.param}`);

await client.responses.delete(first.id);
say("deleted", (await failure(client.responses.retrieve(first.id))).status);
