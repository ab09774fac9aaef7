// Package httptool implements the tool port with HTTP requests: a tool is a request whose parts are filled from
// the arguments.
//
// Other kinds whose tools are requests (OpenAPI) make them with [Request] and [Do]; other fetches go through
// [Send]. The package must not know runs. It imports its port.
package httptool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/platform/egress"
)

// Request describes how a tool's arguments become an HTTP request. Its JSON form is a definition's binding.
type Request struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`            // may have {argument} in its path
	Path    []Field           `json:"path,omitempty"` // those of them that are not simple
	Query   []Field           `json:"query,omitempty"`
	Header  []Field           `json:"header,omitempty"`
	Cookie  []Field           `json:"cookie,omitempty"`
	Fixed   map[string]string `json:"fixed,omitempty"` // headers with constant values
	Body    string            `json:"body,omitempty"`  // the argument that is the body; empty: none
	Content string            `json:"content_type,omitempty"`
	Form    []Field           `json:"form,omitempty"`   // members of the body of a form that have a style
	Beside  bool              `json:"beside,omitempty"` // see [tool.Definition.Beside]
}

// Kind is the kind "http": a toolkit of one request that its owner describes.
type Kind struct{ Client *http.Client }

// Placeholder matches a part of a path that an argument fills.
var Placeholder = regexp.MustCompile(`\{[^{}/]+\}`)

// Discover makes the one tool. It returns a [tool.Error] where the description cannot be used.
func (k *Kind) Discover(_ context.Context, e tool.Endpoint) ([]tool.Definition, error) {
	if e.Request == nil {
		return nil, tool.Fail("the request is missing")
	}
	d := *e.Request
	if d.Method == "" {
		d.Method = http.MethodGet
	}
	if !slices.Contains([]string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		d.Method) {
		return nil, tool.Fail("the method must be GET, POST, PUT, PATCH or DELETE, not %q", d.Method)
	}
	if d.Name == "" {
		return nil, tool.Fail("the request needs a name")
	}
	if err := CheckAddress(e.URL); err != nil {
		return nil, err
	}
	if err := checkHeaders(d.Headers); err != nil {
		return nil, err
	}
	if len(d.Parameters) == 0 {
		d.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	if d.Parameters[0] != '{' {
		return nil, tool.Fail("the request's parameters must be an object")
	}
	r := Request{Method: d.Method, URL: e.URL, Fixed: d.Headers, Body: d.Body}
	if d.Body != "" {
		r.Content = "application/json"
	}
	for _, q := range d.Query {
		r.Query = append(r.Query, Field{Name: q, Argument: q})
	}
	binding, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return []tool.Definition{{
		Spec: tool.Spec{
			Name: tool.Name(d.Name), Description: d.Description, Parameters: d.Parameters, RetrySafe: Safe(d.Method),
		},
		Binding: binding,
	}}, nil
}

// IdempotencyKey is the header of each request whose method is not safe. It is the same for all attempts of a call.
const IdempotencyKey = "Idempotency-Key"

// reserved matches reserved headers. They carry credentials, or decide where a request goes and how it is read or
// classified. An argument may have a name that only resembles these, like X-Page-Token.
var reserved = regexp.MustCompile(`(?i)^(accept|content-(type|length|encoding)|host|connection|keep-alive|te|trailer|` +
	`transfer-encoding|upgrade|expect|forwarded|x-forwarded-.*|x-real-ip|x-original-url|x-rewrite-url|` +
	`(x-)?(http-)?method(-override)?|proxy-.*|cookie|(x-)?(authorization|(api|auth|access|subscription)-?key|` +
	`(auth|access|security|csrf|xsrf)-token|(api|client)-secret))$`)

// Reserved reports whether a header is never an argument. The idempotency key of a request is that of its call.
func Reserved(header string) bool { return reserved.MatchString(header) }

// Safe reports whether HTTP defines the method as safe, so that a request may be repeated.
func Safe(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// Call makes the request; errors as of [Do].
func (k *Kind) Call(ctx context.Context, e tool.Endpoint, d tool.Definition, i tool.Invocation) (tool.Result, error) {
	return Do(ctx, k.Client, e.Credentials, d.Binding, i)
}

// Do makes the request of a binding and returns the response. It returns a [tool.Error] in these cases: the arguments
// do not fit, the server cannot be reached, the response is too large, or its status is not 2xx. Another error means
// that the binding is broken.
func Do(
	ctx context.Context, client *http.Client, c tool.Credentials, binding json.RawMessage, i tool.Invocation,
) (tool.Result, error) {
	none := tool.Result{}
	var r Request
	if err := json.Unmarshal(binding, &r); err != nil {
		return none, fmt.Errorf("httptool: the binding: %w", err)
	}
	request, err := r.build(ctx, i)
	if err != nil {
		return none, err
	}
	answer, err := Send(client, request, c)
	if err != nil {
		return none, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := Read(answer, tool.MaxResult+1)
	if err != nil {
		return none, err
	}
	large := tool.Fail("the answer is over %d MiB", tool.MaxResult>>20)
	if len(body) > tool.MaxResult {
		return none, large
	}
	result := resultOf(strings.Join(answer.Header.Values("Content-Type"), ","), body)
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return none, tool.Fail("the server answered %d: %s", answer.StatusCode,
			tool.Clip(result.String(), tool.EnoughText))
	}
	if len(result.Text) > tool.MaxResult {
		return none, large
	}
	if at := answer.Header.Get("Location"); len(body) == 0 && at != "" { // of a new resource
		result.Text = "Location: " + tool.Clip(at, tool.EnoughText)
	}
	return result, nil
}

// Unreachable is the [tool.Error] of a server that cannot be reached. It names no address: the model and the user
// read it.
func Unreachable(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return tool.Fail("the server did not respond in time")
	case errors.Is(err, context.Canceled):
		return err
	}
	failure, _ := egress.Plain(err)
	return tool.Fail("the server cannot be reached: %s", failure)
}

// Authorize adds credentials to a request. No other code does that. It returns a [tool.Error] if the credentials were
// not given for the request's server.
func Authorize(r *http.Request, c tool.Credentials) error {
	if !c.For(r.URL) {
		return tool.Fail("the toolkit's credentials are for another server: the credentials must be " +
			"given again")
	}
	switch c.Type {
	case "bearer":
		r.Header.Set("Authorization", "Bearer "+c.Token)
	case "header":
		r.Header.Set(c.Name, c.Value)
	case "basic":
		r.SetBasicAuth(c.Username, c.Password)
	case "query":
		pairs := slices.DeleteFunc(strings.Split(r.URL.RawQuery, "&"), func(pair string) bool {
			name, _, _ := strings.Cut(pair, "=")
			name, err := url.QueryUnescape(name)
			return pair == "" || err != nil || name == c.Name
		})
		pairs = append(pairs, url.QueryEscape(c.Name)+"="+url.QueryEscape(c.Value))
		r.URL.RawQuery = strings.Join(pairs, "&")
	}
	return nil
}

// Straight returns a copy of a client that does not follow redirects: nobody agreed to send credentials to their
// target. The redirect itself is the response.
func Straight(client *http.Client) *http.Client {
	straight := *client
	straight.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	straight.Jar = nil
	return &straight
}

// Send makes a request with credentials, once, without following redirects. It returns a [tool.Error] where the
// credentials are for another server or the server cannot be reached.
func Send(client *http.Client, r *http.Request, c tool.Credentials) (*http.Response, error) {
	if err := Authorize(r, c); err != nil {
		return nil, err
	}
	once(r)
	answer, err := Straight(client).Do(r)
	if err != nil {
		return nil, Unreachable(err)
	}
	return answer, nil
}

// Read reads at most so many bytes of a response's body. It returns a [tool.Error] if the connection breaks or the body
// is compressed. An empty body is never compressed, although some servers name a coding for it.
func Read(answer *http.Response, most int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err != nil {
		return nil, Unreachable(err)
	}
	coding := answer.Header.Get("Content-Encoding")
	if len(body) > 0 && compressed.MatchString(coding) {
		return nil, tool.Fail("the server answered %d, compressed in a form that cannot be read (%s)",
			answer.StatusCode, tool.Clip(coding, 100))
	}
	return body, nil
}

// compressed matches codings. The transport removes the one that it decodes.
var compressed = regexp.MustCompile(`(?i)\b(br|zstd|dcb|dcz|deflate|compress|x-compress|gzip|x-gzip)\b`)

// once keeps [http.Transport] from repeating a request that is not safe. The transport repeats a request with an
// idempotency key if its connection broke, even after the server may have read it. The tool's RetrySafe decides that
// instead. The transport finds these headers only in their canonical spelling, and HTTP accepts any.
func once(r *http.Request) {
	if Safe(r.Method) {
		return
	}
	for _, name := range []string{IdempotencyKey, "X-Idempotency-Key"} {
		if values := r.Header.Values(name); len(values) > 0 {
			r.Header.Del(name)
			r.Header[strings.ToLower(name)] = values
		}
	}
}

func (r Request) build(ctx context.Context, i tool.Invocation) (*http.Request, error) {
	arguments := map[string]json.RawMessage{}
	if err := json.Unmarshal(i.Arguments, &arguments); err != nil {
		return nil, tool.Fail("the arguments do not fit: %s", err)
	}
	address, err := r.address(arguments)
	if err != nil {
		return nil, err
	}
	body, content, err := r.body(arguments)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, address, body)
	if err != nil {
		return nil, tool.Fail("the arguments do not make a valid URL")
	}
	request.Header.Set("User-Agent", "agent-platform/1")
	request.Header.Set("Accept", "application/json, text/*;q=0.9, */*;q=0.5")
	for name, value := range r.Fixed {
		request.Header.Set(name, value)
	}
	if content != "" {
		request.Header.Set("Content-Type", content)
	}
	for _, f := range r.Header {
		if Reserved(f.Name) {
			continue
		}
		v, ok := f.inHeader(arguments[f.Argument])
		if strings.ContainsAny(v, "\r\n\x00") {
			return nil, tool.Fail("%s: must be a single line", f.Argument)
		}
		if ok {
			request.Header.Set(f.Name, v)
		}
	}
	if !Safe(r.Method) { // after the arguments: a model cannot write a key that no other call has
		request.Header.Set(IdempotencyKey, i.IdempotencyKey)
	}
	var cookies []string
	for _, f := range r.Cookie {
		cookies = append(cookies, f.pairs(arguments[f.Argument], unreserved+inCookie)...)
	}
	if len(cookies) > 0 {
		request.Header.Set("Cookie", strings.Join(cookies, "; "))
	}
	return request, nil
}

// CheckAddress returns an error if arguments fill other parts of an address than parts of its path.
func CheckAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https") ||
		strings.ContainsAny(u.RawQuery+u.Fragment, "{}") {
		return tool.Fail("the URL must be absolute, without user information, and with {arguments} only in its path")
	}
	return nil
}

// address fills the path and the query. An argument becomes part of one path segment, with any characters.
func (r Request) address(arguments map[string]json.RawMessage) (string, error) {
	u, err := url.Parse(r.URL)
	if err != nil || CheckAddress(r.URL) != nil {
		return "", tool.Fail("the tool has no valid address: refresh its toolkit")
	}
	template := u.RawPath // the path as written, where that is not its default encoding
	if template == "" {
		template = u.EscapedPath()
	}
	segments := strings.Split(template, "/")
	for i, segment := range segments {
		if segments[i], err = r.fill(segment, arguments); err != nil {
			return "", err
		}
	}
	var query []string
	if u.RawQuery != "" {
		query = append(query, u.RawQuery)
	}
	for _, f := range r.Query {
		query = append(query, f.pairs(arguments[f.Argument], unreserved)...)
	}
	path := strings.Join(segments, "/")
	filled := u.Scheme + "://" + u.Host + path
	if len(query) > 0 {
		filled += "?" + strings.Join(query, "&")
	}
	if is, err := url.Parse(filled); err != nil || is.Scheme != u.Scheme || is.Host != u.Host || is.User != nil ||
		is.EscapedPath() != path {
		return "", tool.Fail("the arguments do not make a valid URL")
	}
	return filled, nil
}

func (r Request) fill(segment string, arguments map[string]json.RawMessage) (string, error) {
	const asWritten = unreserved + subDelimiter + "%:@"
	if !Placeholder.MatchString(segment) {
		return escape(segment, asWritten), nil
	}
	var missing string
	at, filled := 0, ""
	for _, span := range Placeholder.FindAllStringIndex(segment, -1) {
		name := segment[span[0]+1 : span[1]-1]
		field := Field{Name: name, Argument: name, Joined: true}
		if i := slices.IndexFunc(r.Path, func(f Field) bool { return f.Argument == name }); i >= 0 {
			field = r.Path[i]
		}
		text := field.inPath(arguments[name])
		if (isNull(arguments[name]) || text == "") && missing == "" {
			missing = name
		}
		filled += escape(segment[at:span[0]], asWritten) + text
		at = span[1]
	}
	filled += escape(segment[at:], asWritten)
	if missing != "" || filled == "." || filled == ".." {
		return "", tool.Fail("%s: is required: it is a part of the path", strings.Trim(cmp.Or(missing, segment), "{}"))
	}
	return filled, nil
}

// escape percent-encodes every byte except letters, digits and those in keep.
func escape(text, keep string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(keep, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// checkHeaders returns an error if constant headers are invalid or hold credentials: all who may read the toolkit see
// them.
func checkHeaders(headers map[string]string) error {
	for name, value := range headers {
		switch {
		case !headerName.MatchString(name):
			return tool.Fail("headers: %q is not a header name", tool.Clip(name, 100))
		case tool.Authorizes(name), letsIn.MatchString(value):
			return tool.Fail("headers: %s is a credential: set it in credentials", name)
		case len(value) > 8192 || strings.ContainsAny(value, "\r\n\x00"):
			return tool.Fail("headers: %s must be a single line of at most 8192 characters", name)
		}
	}
	return nil
}

var (
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")
	letsIn     = regexp.MustCompile(`(?i)^\s*(bearer|basic|digest|negotiate|token)\s+\S`)
)

func (r Request) body(arguments map[string]json.RawMessage) (io.Reader, string, error) {
	v, there := arguments[r.Body]
	if r.Body == "" || !there {
		return http.NoBody, "", nil
	}
	media, _, _ := mime.ParseMediaType(r.Content)
	isForm := media == "application/x-www-form-urlencoded" || media == "multipart/form-data"
	switch {
	case isForm && !isObject(v):
		return nil, "", tool.Fail("%s: must be an object", r.Body)
	case media == "multipart/form-data":
		b, content, err := r.multipart(v)
		return bytes.NewReader(b), content, err
	case isForm:
		return strings.NewReader(r.form(v)), media, nil
	case media == "" || IsJSON(media):
		return bytes.NewReader(v), r.Content, nil
	}
	return strings.NewReader(textOf(v)), r.Content, nil
}

// IsJSON reports whether a media type is JSON.
func IsJSON(media string) bool {
	return media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
}
