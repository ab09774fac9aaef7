//go:build integration

package dynamotable_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"agentplatform/internal/proof/awstest"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/dynamotable"
	"agentplatform/internal/store/table/tabletest"
)

func TestContract(t *testing.T) {
	client := dynamodb.NewFromConfig(awstest.Config(t))
	tabletest.Run(t, tabletest.Harness{
		New: func(t *testing.T) table.Table {
			return dynamotable.New(client, awstest.Table(t, client), time.Now)
		},
		IndexLag: time.Minute, PollLag: 5 * time.Second,
	})
}
