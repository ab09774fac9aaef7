// The panel begins here.
import './hint.js'
import { render } from './vendor/preact.js'
import { html } from './html.js'
import { Shell } from './shell.js'

render(html`<${Shell} />`, /** @type {HTMLElement} */ (document.getElementById('app')))
