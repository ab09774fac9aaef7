package meta

import (
	"io"
	"net/http"
	"net/url"

	"github.com/swaggest/swgui/v5/static"
	"github.com/vearutop/statigz"

	"agentplatform/internal/api/httpapi"
)

// docsPage shows the OpenAPI document in Swagger UI. The page is a constant, because a template would link the engine
// of templates for it alone. That engine keeps the linker from leaving out methods of every library that nobody calls.
const docsPage = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Agent Platform</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="icon" type="image/png" href="/docs/favicon-32x32.png">
<style>body { margin: 0 }</style>
</head>
<body>
<div id="ui" data-document="` + httpapi.Base + `/openapi.json"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`

const docsScript = `SwaggerUIBundle({
  url: document.getElementById("ui").dataset.document, dom_id: "#ui", deepLinking: true,
  presets: [SwaggerUIBundle.presets.apis],
})
`

// docsPolicy is the policy that the page needs: its own files, the pictures and styles that Swagger UI writes into it,
// and the address to which it sends requests.
func docsPolicy(publicURL string) string {
	reached := ""
	if u, err := url.Parse(publicURL); err == nil && u.Host != "" {
		reached = " " + u.Scheme + "://" + u.Host
	}
	return "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
		"font-src 'self' data:; connect-src 'self'" + reached + "; base-uri 'none'; form-action 'none'; " +
		"frame-ancestors 'none'"
}

func docsRoutes(s *httpapi.Server) {
	files := http.StripPrefix("/docs", statigz.FileServer(static.FS))
	s.HandleOpen("GET /docs", http.RedirectHandler("/docs/", http.StatusMovedPermanently))
	policy := docsPolicy(s.PublicURL)
	s.HandleOpen("GET /docs/{$}", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		_, _ = io.WriteString(w, docsPage)
	}))
	s.HandleOpen("GET /docs/start.js", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = io.WriteString(w, docsScript)
	}))
	s.HandleOpen("GET /docs/", files)
}
