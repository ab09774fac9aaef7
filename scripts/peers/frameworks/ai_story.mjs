// The AI SDK of Vercel.
import { part, modules, url, key, model } from "./parts.mjs";

const { generateText, streamText, tool, stepCountIs } = await modules("ai");
const { createOpenAI } = await modules("@ai-sdk/openai");
const { z } = await modules("zod");
const openai = createOpenAI({ baseURL: url, apiKey: key });
const getWeather = tool({
  description: "The weather of a place.", inputSchema: z.object({ location: z.string() }), execute: () => "sunny",
});

await part("text", async () => (await generateText({ model: openai(model), prompt: "hello" })).text);
await part("streamed", async () => {
  let all = "";
  for await (const piece of streamText({ model: openai(model), prompt: "count" }).textStream) all += piece;
  return all;
});
await part("tools", async () => (await generateText({
  model: openai(model), prompt: "How is the weather?", tools: { get_weather: getWeather }, stopWhen: stepCountIs(3),
})).text);
const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const map = { ...getWeather, toModelOutput: () => ({
  type: "content", value: [{ type: "text", text: "map" }, { type: "image-data", data: picture, mediaType: "image/png" }],
}) };
await part("picture", async () => (await generateText({
  model: openai(model), prompt: "How is the weather?", tools: { get_weather: map }, stopWhen: stepCountIs(3),
})).text);
await part("failure", async () => generateText({ model: openai("Demo"), prompt: "/fail no luck", maxRetries: 0 }));
await part("chat", async () => (await generateText({ model: openai.chat(model), prompt: "hello", maxRetries: 0 })).text);
