// Command chat is the function behind API Gateway for messages: POST /chat, and those of the A2A protocol. Whether an
// answer is a stream stands in the request's body, so it always answers in the streaming way.
package main

import (
	"time"

	"agentplatform/internal/cloud"
	"agentplatform/internal/cloud/edge"
	"agentplatform/internal/cloud/function"
	"agentplatform/internal/trigger"
)

// maxStream is when a stream ends before the function would be ended, after 15 minutes.
const maxStream = 14 * time.Minute

func main() {
	function.Run(func(p *cloud.Platform) (any, error) {
		server, err := edge.New(p, maxStream, edge.A2A)
		if err != nil {
			return nil, err
		}
		return trigger.Streamed(server, p.Log), nil
	})
}
