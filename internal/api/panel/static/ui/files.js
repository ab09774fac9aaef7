// Files of messages and results.
import { html } from '../html.js'
import { download } from '../api.js'
import { Act } from './form.js'
import { Copy } from './parts.js'

/** Files, each with a link to its bytes. @param {{of: any[]}} p */
export function Files({ of }) {
  return html`<ul class="files" aria-label="Files">${of.map((f) => html`<li key=${f.file_id ?? f.name}>${f.name} <span class="small">${f.content_type}</span>
    ${f.file_id && html` <${Act} label="Download" name="Download ${f.name}" class="link" act=${() => download(`/files/${f.file_id}`, f.name)} /> <${Copy} text=${f.file_id} label="Copy file id" />`}</li>`)}</ul>`
}
