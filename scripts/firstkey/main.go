// Command firstkey makes what the first start of a deployment needs: an organization, a user, an operator key and the
// agent Demo. It prints the key, which is shown this once. Where there is an organization already it makes nothing, as
// whoever made that has the key, and fails; with -if-none it says nothing then. -again is for when all operator keys
// are lost.
//
//	go run ./scripts/firstkey -table NAME [-if-none | -again]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"agentplatform/internal/blob/memblob"
	"agentplatform/internal/catalog"
	"agentplatform/internal/host"
	"agentplatform/internal/record"
	"agentplatform/internal/table/dynamotable"
	"agentplatform/internal/tenant"
)

func main() {
	name := flag.String("table", "", "the stage's core table: the output CoreTable of its data stack")
	again := flag.Bool("again", false, "make another organization beside those that there are")
	ifNone := flag.Bool("if-none", false, "print nothing, and succeed, where there is an organization already")
	flag.Parse()
	if err := run(context.Background(), *name, *ifNone, *again); err != nil {
		fmt.Fprintln(os.Stderr, "firstkey:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name string, ifNone, again bool) error {
	if name == "" {
		return fmt.Errorf("-table is required")
	}
	account, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	machine := host.System()
	store := record.New(dynamotable.New(dynamodb.NewFromConfig(account), name, machine.Now), &memblob.Store{}, machine)
	there, err := record.Resources[catalog.Organization](ctx, store, record.System(), "", 1)
	if err != nil {
		return err
	}
	if len(there.Rows) > 0 && ifNone {
		return store.EnsureDeployment(ctx)
	}
	if len(there.Rows) > 0 && !again {
		return fmt.Errorf("organization %s is there already: its operator key is with whoever deployed this first; "+
			"-again makes another organization with a key of its own",
			there.Rows[0].Value.ID)
	}
	if err := store.EnsureDeployment(ctx); err != nil {
		return err
	}
	// It sets no secret that would have to be sealed.
	first, err := tenant.New(store, store.Known(), machine, tenant.Defaults{}, nil).Bootstrap(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]string{
		"organization_id": first.Organization.ID, "agent_id": first.Agent.ID, "key": first.Key,
	})
}
