package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"
)

// The SDK's clients of EC2, CloudFront and Bedrock take longer to compile than all the rest of this repository. EC2's
// alone takes minutes. Only seven requests need them. The code here writes these as the SDK's clients do, and the SDK
// signs them.

// request is a request in a service's own protocol.
type request struct {
	service, region, method, path string
	query                         url.Values
	form                          url.Values // of the protocol ec2Query
}

// maxAnswer is the largest part of a response that is read, in bytes.
const maxAnswer = 4 << 20

// raw sends a request, and decodes the response into out: XML if the response begins like it, otherwise JSON.
func (c *account) raw(ctx context.Context, q request, out any) error {
	host := "https://" + q.service + "." + q.region + ".amazonaws.com"
	switch {
	case c.config.BaseEndpoint != nil:
		host = strings.TrimSuffix(*c.config.BaseEndpoint, "/")
	case q.service == "cloudfront":
		host = "https://cloudfront.amazonaws.com"
	}
	body := []byte(q.form.Encode())
	r, err := http.NewRequestWithContext(ctx, q.method, host, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.URL.Path, r.URL.RawPath, r.URL.RawQuery = q.path, escaped(q.path), q.query.Encode()
	if q.form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	credentials, err := c.config.Credentials.Retrieve(ctx)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, credentials, r, hex.EncodeToString(sum[:]), q.service, q.region,
		time.Now()); err != nil {
		return err
	}
	answer, err := c.client().Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	response, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return refused(answer, response)
	}
	return decoded(response, out)
}

// escaped escapes each part of a path, with colons, as the SDK does.
func escaped(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(url.PathEscape(p), ":", "%3A")
	}
	return strings.Join(parts, "/")
}

func decoded(body []byte, out any) error {
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
		return xml.Unmarshal(body, out)
	}
	return json.Unmarshal(body, out)
}

// A response in XML has the error at the root, in Error, or in Errors.
var (
	errorCode    = regexp.MustCompile(`<Code>([^<]+)</Code>`)
	errorMessage = regexp.MustCompile(`<Message>([^<]*)</Message>`)
)

// refused returns the error in a response, in any of the services' forms.
func refused(answer *http.Response, body []byte) error {
	e := &smithy.GenericAPIError{Code: strconv.Itoa(answer.StatusCode), Message: http.StatusText(answer.StatusCode)}
	if found := errorCode.FindSubmatch(body); found != nil {
		e.Code = string(found[1])
		if found = errorMessage.FindSubmatch(body); found != nil {
			e.Message = string(found[1])
		}
		return e
	}
	var j struct{ Message string }
	_ = json.Unmarshal(body, &j)
	e.Message = cmp.Or(j.Message, e.Message)
	// with an address behind a colon, or a name space before #
	kind, _, _ := strings.Cut(answer.Header.Get("X-Amzn-ErrorType"), ":")
	e.Code = cmp.Or(kind[strings.LastIndex(kind, "#")+1:], e.Code)
	return e
}

// code returns the code of an error of AWS. It is empty for other errors.
func code(err error) string {
	var e smithy.APIError
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

// denied reports whether credentials lack a right.
func denied(err error) bool {
	switch code(err) {
	case "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError", "Unauthorized",
		"NotAuthorized", "403":
		return true
	}
	return false
}

// ec2 sends a request to EC2 with filters, each a name and its value.
func (c *account) ec2(ctx context.Context, action string, out any, filters ...string) error {
	form := url.Values{"Action": {action}, "Version": {"2016-11-15"}}
	for i := 0; i+1 < len(filters); i += 2 {
		n := strconv.Itoa(i/2 + 1)
		form.Set("Filter."+n+".Name", filters[i])
		form.Set("Filter."+n+".Value.1", filters[i+1])
	}
	return c.raw(ctx, request{service: "ec2", region: c.config.Region, method: http.MethodPost, path: "/",
		form: form}, out)
}

func (c *account) client() aws.HTTPClient {
	if c.config.HTTPClient != nil {
		return c.config.HTTPClient
	}
	return http.DefaultClient
}

// bedrock sends a request to Bedrock.
func (c *account) bedrock(ctx context.Context, format, id string, out any) error {
	return c.raw(ctx, request{service: "bedrock", region: c.config.Region, method: http.MethodGet,
		path: fmt.Sprintf(format, id)}, out)
}
