// A run while it goes on. Each connection begins with the whole state (init), so a reader whose connection breaks just
// opens another.
import { Failure, request } from './api.js'

/**
 * The data of a run that is being watched.
 * @typedef {{run: any, text: string, steps: any[], status: string, interrupts: any[], parked: any[], connected: boolean}} Watched
 */

/** The data after an event. @param {Watched|null} known @param {any} e @returns {Watched|null} */
export function after(known, e) {
  if (e.event === 'init') {
    return { run: e.run, text: e.text ?? '', steps: e.steps ?? [], status: e.run.status, interrupts: e.run.interrupts ?? [], parked: e.run.parked ?? [], connected: true }
  }
  if (!known) return known
  switch (e.event) {
    case 'delta': return { ...known, text: known.text + e.text }
    case 'status': return { ...known, status: e.status, interrupts: e.interrupts ?? [] }
    case 'step': return { ...known, steps: [...known.steps.filter((s) => s.index !== e.step.index), e.step].sort((a, b) => a.index - b.index) }
    case 'parked': return { ...known, parked: [...known.parked.filter((p) => p.parked_id !== e.parked.parked_id), e.parked] }
    case 'done': return { ...known, run: e.run, status: e.run.status, interrupts: [], parked: e.run.parked ?? [] }
    default: return known
  }
}

export const ended = (/** @type {string} */ status) => ['completed', 'failed', 'cancelled', 'timed_out'].includes(status)

/** How long a connection may send nothing, in ms: the service sends something every 15 s. */
const silence = 45000

/** The events of an answer, whether it has one a line (NDJSON) or is of Server-Sent Events. @param {Response} answer @param {AbortSignal} signal */
export async function* events(answer, signal) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader()
  let rest = ''
  const end = () => { reader.cancel().catch(() => {}) }
  signal.addEventListener('abort', end)
  try {
    for (;;) {
      const silent = setTimeout(end, silence)
      const { done, value } = await reader.read().finally(() => clearTimeout(silent))
      if (done) return
      const lines = (rest + value).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        if (line.startsWith('data: ')) yield JSON.parse(line.slice(6))
        else if (line.startsWith('{')) yield JSON.parse(line)
      }
    }
  } finally {
    signal.removeEventListener('abort', end)
    end()
  }
}

/**
 * Follows a run until it has ended; a connection that breaks is opened again.
 * @param {string} runId @param {(e: any) => void} told called with each event, and with {event: 'lost'} when a connection has broken
 * @param {AbortSignal} signal
 */
export async function follow(runId, told, signal) {
  for (let wait = 250; !signal.aborted;) {
    try {
      const answer = await request('GET', `/runs/${runId}/stream`, { signal })
      for await (const e of events(answer, signal)) {
        wait = 250
        told(e)
        if (e.event === 'done') return
      }
    } catch (e) {
      if (signal.aborted) return
      if (e instanceof Failure && [403, 404].includes(e.status)) throw e
    }
    told({ event: 'lost' })
    await pause(wait + Math.random() * wait, signal)
    wait = Math.min(2 * wait, 5000)
  }
}

/** @param {number} ms @param {AbortSignal} signal */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => { clearTimeout(timer); resolve(undefined) }, { once: true })
  })
}
