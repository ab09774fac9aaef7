package httpapi

import (
	"io"
	"net/http"

	"github.com/swaggest/swgui/v5/static"
	"github.com/vearutop/statigz"
)

// docsPage shows the OpenAPI document in Swagger UI. The page is written out here, as a template would be linked for it
// alone: the engine of templates keeps the linker from leaving out methods that nobody calls, of every library.
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
<div id="ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script>
SwaggerUIBundle({url: "` + Base + `/openapi.json", dom_id: "#ui", deepLinking: true, presets: [SwaggerUIBundle.presets.apis]})
</script>
</body>
</html>
`

func (s *Server) docsRoutes() {
	files := http.StripPrefix("/docs", statigz.FileServer(static.FS))
	s.mux.Handle("GET /docs", http.RedirectHandler("/docs/", http.StatusMovedPermanently))
	s.mux.HandleFunc("GET /docs/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, docsPage)
	})
	s.mux.Handle("GET /docs/", files)
}
