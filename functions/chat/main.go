// Command chat is the Lambda function behind API Gateway for messages: POST /chat, MCP, A2A, AG-UI and Open Responses.
// Only the request determines whether the answer is a stream, so all answers use Lambda's response streaming.
package main

import (
	"time"

	"agentplatform/internal/wiring/cloud"
	"agentplatform/internal/wiring/cloud/function"
	"agentplatform/internal/wiring/cloud/httpedge"
	"agentplatform/internal/wiring/cloud/httpedge/gateway"
	"agentplatform/internal/wiring/trigger"
)

// maxStream is the longest stream: the function is ended after 15 minutes.
const maxStream = 14 * time.Minute

func main() {
	function.Run(func(p *cloud.Platform) (any, error) {
		server, err := httpedge.New(p, maxStream, gateway.Add(p))
		if err != nil {
			return nil, err
		}
		return trigger.Streamed(p.Requests(server), p.Log), nil
	})
}
