// The protocol's official client for TypeScript: lists the tools of a server and calls some.
//
//     node mcp_client.mjs MODULES SDK URL KEY [COMMAND...]
//
// SDK is a package of MODULES: @modelcontextprotocol/sdk or one like it (generation 1), or @modelcontextprotocol/client
// (generation 2), with "+auto" where it is to look for the newest version of the protocol. A COMMAND is asked over stdin
// and stdout in place of the URL. It prints what it has heard as one object of JSON.

const [modules, sdk, url, key, ...command] = process.argv.slice(2)
const [name, auto] = sdk.split("+")
const second = name === "@modelcontextprotocol/client"
const from = (file) => import(`${modules}/${name}/dist/${file}`)
const { Client } = await from(second ? "index.mjs" : "esm/client/index.js")
const { StreamableHTTPClientTransport } = await from(second ? "index.mjs" : "esm/client/streamableHttp.js")
const { StdioClientTransport } = await from(second ? "stdio.mjs" : "esm/client/stdio.js")

const transport = command.length
  ? new StdioClientTransport({ command: command[0], args: command.slice(1), stderr: "ignore", env: process.env })
  : new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${key}` } } })
const client = new Client({ name: "peer", version: "1" }, auto ? { versionNegotiation: { mode: "auto" } } : {})
await client.connect(transport)
const call = (name, args, options) =>
  second ? client.callTool({ name, arguments: args }, options) : client.callTool({ name, arguments: args }, undefined, options)
const heard = { capabilities: client.getServerCapabilities() }
heard.tools = (await client.listTools()).tools.map((t) => t.name)

const progress = []
const hello = await call("Demo", { message: "hello" }, { onprogress: (p) => progress.push(p.message) })
heard.text = hello.content[0].text
heard.status = hello.structuredContent.status
heard.progress = progress.join("")
const shaped = await call("Shaped", { message: "where?" })
heard.output = shaped.structuredContent.output
const failed = await call("Demo", { message: "/fail no luck" })
heard.failed = failed.isError
heard.asks = (await call("Demo", { message: "/ask Which city?" })).structuredContent.status
heard.unknown = await call("Nobody", { message: "hello" }).then((r) => (r.isError ? "result" : ""), (e) => `${e.code}`)

const leaving = new AbortController()
heard.left = await call("Demo", { message: "/stream 2 20ms\n/sleep 60s" }, {
  signal: leaving.signal,
  onprogress: () => leaving.abort("enough"),
}).then(() => "", (e) => `${e?.name ?? e}`)
const again = await call("get_run", { run_id: hello.structuredContent.run_id })
heard.again = again.structuredContent.answer
console.log(JSON.stringify(heard))
await client.close()
