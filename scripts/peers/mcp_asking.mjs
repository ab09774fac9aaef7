// A server by the protocol's official SDK for TypeScript whose tools ask their client back, whatever it claims: the tool
// "ask" asks for the method of its arguments, and answers with the client's answer.
//
//     node mcp_asking.mjs MODULES [PORT]    over stdin and stdout, or over streamable HTTP

import http from "node:http"

const [modules, port] = process.argv.slice(2)
const sdk = (name) => import(`${modules}/@modelcontextprotocol/sdk/dist/esm/${name}.js`)
const { Server } = await sdk("server/index")
const { CallToolRequestSchema, ListToolsRequestSchema, ResultSchema } = await sdk("types")

function server() {
  const s = new Server({ name: "asking", version: "1" }, { capabilities: { tools: {} } })
  s.setRequestHandler(ListToolsRequestSchema, async () => ({
    tools: [{ name: "ask", inputSchema: { type: "object" } }],
  }))
  s.setRequestHandler(CallToolRequestSchema, async ({ params }, { sendRequest }) => {
    const said = await sendRequest(params.arguments, ResultSchema).catch((e) => ({ code: e.code }))
    return { content: [{ type: "text", text: JSON.stringify(said) }] }
  })
  return s
}

if (!port) {
  const { StdioServerTransport } = await sdk("server/stdio")
  await server().connect(new StdioServerTransport())
} else {
  const { StreamableHTTPServerTransport } = await sdk("server/streamableHttp")
  const sessions = new Map()
  http.createServer(async (request, response) => {
    let transport = sessions.get(request.headers["mcp-session-id"])
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => crypto.randomUUID(),
        onsessioninitialized: (id) => sessions.set(id, transport),
      })
      await server().connect(transport)
    }
    await transport.handleRequest(request, response)
  }).listen(Number(port), "127.0.0.1")
}
