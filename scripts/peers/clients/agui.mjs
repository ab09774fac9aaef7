// Talks with an agent by the official client of AG-UI, as a front end does, and prints what it saw as JSON.
// Arguments: CLIENT URL KEY AGENT CAREFUL. CLIENT is the name of the client's package; calls of tools of the agent
// CAREFUL need an approval.
const [client, url, key, agent, careful] = process.argv.slice(2)
const { HttpAgent } = await import(client)
const paint = {
  name: 'paint', description: 'Paints the page.',
  parameters: { type: 'object', properties: { color: { type: 'string' } }, required: ['color'] },
}
console.error = () => {} // the client reports errors there, too
const warned = []
console.warn = (...words) => warned.push(words.join(' '))

function frontEnd(threadId, id = agent) {
  return new HttpAgent({ url: `${url}/agui/${id}`, threadId, headers: { Authorization: `Bearer ${key}` } })
}

function say(a, content) {
  a.addMessage({ id: crypto.randomUUID(), role: 'user', content })
}

const texts = messages => messages.filter(m => m.role === 'assistant' && m.content).map(m => m.content)

async function conversation() {
  const a = frontEnd('official-1')
  say(a, 'hello')
  const first = await a.runAgent()
  say(a, 'again\n/stream 5 20ms')
  const second = await a.runAgent()
  return { said: [...texts(first.newMessages), ...texts(second.newMessages)], answer: second.result.answer }
}

async function frontEndTool() {
  const a = frontEnd('official-2')
  say(a, 'do it\n/tool paint {"color":"red"}')
  let color
  let pending
  await a.runAgent({ tools: [paint] }, {
    onToolCallEndEvent({ event, toolCallName, toolCallArgs }) {
      if (toolCallName !== 'paint') return
      color = toolCallArgs.color
      a.addMessage({ id: crypto.randomUUID(), role: 'tool', toolCallId: event.toolCallId, content: `painted ${color}` })
    },
    onRunFinishedEvent({ event }) { pending = event.outcome?.pendingToolCallIds?.length },
  })
  const { newMessages } = await a.runAgent({ tools: [paint] })
  return { color, pending, said: texts(newMessages) }
}

async function noOutput() {
  const a = frontEnd('official-7')
  say(a, '/tool paint {"color":"red"}')
  await a.runAgent({ tools: [paint] })
  say(a, 'never mind')
  return { said: texts((await a.runAgent({ tools: [paint] })).newMessages) }
}

async function interrupts() {
  const a = frontEnd('official-3', careful)
  say(a, '/tool echo {"text":"a"}')
  await a.runAgent()
  const [approval] = a.pendingInterrupts
  const { newMessages } = await a.runAgent({
    resume: [{ interruptId: approval.id, status: 'resolved', payload: { approved: true } }],
  })
  const result = newMessages.find(m => m.role === 'tool')
  say(a, '/ask Which city?')
  await a.runAgent()
  const [question] = a.pendingInterrupts
  const answered = await a.runAgent({
    resume: [{ interruptId: question.id, status: 'resolved', payload: 'Paris' }],
  })
  return {
    approved: result.content, same: result.toolCallId === approval.toolCallId, asked: question.message,
    said: [...texts(newMessages), ...texts(answered.newMessages)],
  }
}

async function cut() {
  const a = frontEnd('official-4')
  say(a, 'count\n/stream 30 100ms')
  let whole = 0
  await a.runAgent({ runId: 'cut' }, {
    onTextMessageContentEvent({ event }) {
      whole += event.delta.length
      a.abortRun()
    },
  }).catch(() => {})
  const heard = texts(a.messages).join('')
  await a.runAgent({ runId: 'cut' })
  return { heard: heard.length > 0 && heard.length < texts(a.messages).join('').length, said: texts(a.messages) }
}

async function stopped() {
  const a = frontEnd('official-8')
  say(a, 'count\n/stream 20 50ms')
  await a.runAgent({}, { onTextMessageContentEvent() { a.abortRun() } }).catch(() => {})
  say(a, 'and now?')
  await a.runAgent()
  return { roles: a.messages.map(m => m.role), said: texts(a.messages) }
}

async function failure() {
  const a = frontEnd('official-5')
  say(a, '/fail no luck')
  let message
  await a.runAgent({}, { onRunErrorEvent({ event }) { message = event.message } }).catch(() => {})
  const refused = await frontEnd('no thread').runAgent().then(() => null, e => e)
  return { message, status: refused?.status, field: refused?.payload?.errors?.[0]?.location }
}

async function cancelled() {
  const a = frontEnd('official-6')
  say(a, '/sleep 20s')
  let end
  await a.runAgent({}, {
    async onRunStartedEvent({ event }) {
      await fetch(`${url}/runs/${event.metadata.agentplatform.run_id}/cancel`, {
        method: 'POST', headers: { Authorization: `Bearer ${key}` },
      })
    },
    onRunFinishedEvent({ event }) { end = event.outcome?.type },
    onRunErrorEvent({ event }) { end = event.code },
    onRunFailed({ error }) { end = error.message },
  }).catch(() => {})
  return { end }
}

const seen = {}
for (const story of [conversation, frontEndTool, noOutput, interrupts, cut, stopped, failure, cancelled]) {
  seen[story.name] = await story()
}
console.log(JSON.stringify({ ...seen, warned }))
