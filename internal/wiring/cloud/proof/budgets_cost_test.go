//go:build integration

package proof_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/proof/awstest"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/dynamotable"
)

// On DynamoDB no step waits for another run, either.
func TestStepsOfRunsWithTheSameBudgetsNeverConflictOnDynamoDB(t *testing.T) {
	db := dynamodb.NewFromConfig(awstest.Config(t))
	for _, atOnce := range []int{1, 8, 32} {
		budgetLoad(t, dynamotable.New(db, awstest.Table(t, db), time.Now), atOnce)
	}
}

// fiveBudgets gives a token budget to the organization, the user, its group, the key and the agent of each run, before
// any of them is read.
func (b *bench) fiveBudgets() {
	b.Helper()
	most, scope, tx := int64(1)<<40, record.Of(b.first.Organization.ID), b.Store.Begin(b.Host.NewID())
	budget := &record.Budget{Period: "month", MaxTokens: &most}
	group := catalog.Group{ID: b.Host.NewID(), Organization: b.first.Organization.ID, Name: "g", Budget: budget}
	record.PutResource(tx, record.Fresh(group))
	organization, err := record.Resource[catalog.Organization](b.Context(), b.Store, scope, b.first.Organization.ID)
	require.NoError(b, err)
	organization.Value.Budget = budget
	record.PutResource(tx, organization)
	agent, err := record.Resource[catalog.Agent](b.Context(), b.Store, scope, b.first.Agent.ID)
	require.NoError(b, err)
	agent.Value.Spec.Budget = budget
	record.PutResource(tx, agent)
	users, err := record.Resources[catalog.User](b.Context(), b.Store, scope, "", 10)
	require.NoError(b, err)
	for _, user := range users.Rows {
		user.Value.Budget, user.Value.GroupIDs = budget, []string{group.ID}
		record.PutResource(tx, user)
	}
	keys, err := record.Resources[catalog.APIKey](b.Context(), b.Store, scope, "", 10)
	require.NoError(b, err)
	for _, key := range keys.Rows {
		key.Value.Budget = budget
		record.PutResource(tx, key)
	}
	require.NoError(b, tx.Commit(b.Context()))
}
