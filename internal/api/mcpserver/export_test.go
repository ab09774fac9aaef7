package mcpserver

import "net/http"

// Gives is the schema of a result as the library has it.
var Gives = gives

// Token is the progress token of a request.
func Token(h http.Header, body []byte) []byte { return read(body).token(h, len(body)) }

// Open reports whether a call in progress can be given up.
func (s *Server) Open() (is bool) {
	s.open.Range(func(any, any) bool { is = true; return false })
	return is
}
