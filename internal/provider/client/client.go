// Package client makes what model providers are called with: an HTTP client, and an AWS configuration for Bedrock. It
// is separate from those who make models of them so that a program links the clients that it calls, and no others.
//
// It is wiring and contains no rules. It imports setting, trace and the SDK's configuration.
package client

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"

	"agentplatform/internal/setting"
	"agentplatform/internal/trace"
)

// firstByte limits the wait for a response's headers; the caller limits the time of the whole answer.
const firstByte = 5 * time.Minute

// HTTP makes the client of providers that speak HTTP.
func HTTP() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.ResponseHeaderTimeout = 64, firstByte
	outgoing := trace.Outgoing(transport)
	return &http.Client{Transport: outgoing, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a key is sent only to the configured address
	}}
}

// AWS loads the AWS configuration, with the Region and the address that the settings name for Bedrock. The error names
// the setting that needs it.
func AWS(ctx context.Context, s setting.Settings, needs string) (aws.Config, error) {
	account, err := config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.ResponseHeaderTimeout = firstByte
		})))
	if err != nil {
		return account, fmt.Errorf("%s: %w", needs, err)
	}
	if s.BedrockRegion != "" {
		account.Region = s.BedrockRegion
	}
	if s.BedrockBaseURL != "" {
		account.BaseEndpoint = aws.String(s.BedrockBaseURL)
	}
	return account, nil
}
