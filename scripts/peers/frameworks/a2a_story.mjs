// The official SDK of A2A for JavaScript. URL is that of the agent.
import { part, modules, url, key } from "./parts.mjs";

const { ClientFactory, JsonRpcTransportFactory, DefaultAgentCardResolver } = await modules("@a2a-js/sdk/client");
const withKey = (address, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set("Authorization", `Bearer ${key}`);
  return fetch(address, { ...init, headers });
};
const factory = new ClientFactory({
  transports: [new JsonRpcTransportFactory({ fetchImpl: withKey })],
  cardResolver: new DefaultAgentCardResolver({ fetchImpl: withKey }),
});
const client = await factory.createFromUrl(url + "/", ".well-known/agent-card.json");
const message = (text, more) => ({
  tenant: "", metadata: {}, configuration: undefined,
  message: {
    messageId: crypto.randomUUID(), role: 1,
    parts: [{ content: { $case: "text", value: text }, metadata: {}, filename: "", mediaType: "" }],
    contextId: "", taskId: "", metadata: {}, extensions: [], referenceTaskIds: [], ...more,
  },
});
const texts = (parts) => parts.map((p) => (p.content?.$case === "text" ? p.content.value : "")).join("");

await part("card", async () => (await client.getAgentCard()).name);
await part("text", async () => texts((await client.sendMessage(message("hello"))).artifacts[0].parts));
await part("streamed", async () => {
  let all = "";
  for await (const { payload } of client.sendMessageStream(message("hello\n/stream 3 5ms"))) {
    if (payload.$case !== "artifactUpdate") continue;
    const { append, artifact } = payload.value;
    all = (append ? all : "") + texts(artifact.parts);
  }
  return all;
});
await part("asked", async () => {
  const asks = await client.sendMessage(message("/ask Which city?"));
  const answered = await client.sendMessage(message("Oslo", { taskId: asks.id, contextId: asks.contextId }));
  return texts(answered.artifacts[0].parts);
});
await part("cancelled", async () => {
  const asks = await client.sendMessage(message("/ask Which city?"));
  await client.cancelTask({ tenant: "", id: asks.id, metadata: {} });
  return (await client.getTask({ tenant: "", id: asks.id })).status.state;
});
