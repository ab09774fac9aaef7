// The Agents SDK of OpenAI, for JavaScript.
import { part, modules, url, key, model } from "./parts.mjs";

const { Agent, Runner, tool, setTracingDisabled, OpenAIResponsesModel, OpenAIChatCompletionsModel } =
  await modules("@openai/agents");
const { default: OpenAI } = await modules("openai");
const { z } = await modules("zod");
setTracingDisabled(true);
const client = new OpenAI({ baseURL: url, apiKey: key, maxRetries: 0 });
const responses = new OpenAIResponsesModel(client, model);
const runner = new Runner({ tracingDisabled: true });
const getWeather = tool({
  name: "get_weather", description: "The weather of a place.", parameters: z.object({ location: z.string() }),
  execute: async () => "sunny",
});

await part("text", async () => (await runner.run(new Agent({ name: "A", model: responses }), "hello")).finalOutput);
await part("tools", async () => {
  const agent = new Agent({ name: "A", model: responses, tools: [getWeather], instructions: "Be brief." });
  return (await runner.run(agent, "How is the weather?")).finalOutput;
});
await part("streamed", async () => {
  const result = await runner.run(new Agent({ name: "A", model: responses }), "count", { stream: true });
  let all = "";
  for await (const piece of result.toTextStream()) all += piece;
  return all;
});
await part("handoff", async () => {
  const other = new Agent({ name: "Meteorologist", model: responses, instructions: "You know the weather." });
  const desk = new Agent({ name: "Desk", model: responses, instructions: "You send people on.", handoffs: [other] });
  const result = await runner.run(desk, "How is the weather?");
  return `${result.lastAgent.name}: ${result.finalOutput}`;
});
await part("chat", async () => {
  const agent = new Agent({ name: "A", model: new OpenAIChatCompletionsModel(client, model) });
  return (await runner.run(agent, "hello")).finalOutput;
});
