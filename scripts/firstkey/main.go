// Command firstkey makes the records for the first start of a deployment: an organization, a user, an operator key and
// the agent Demo. It prints the key, which is shown this once. If there is already an organization with a key, it makes
// nothing and fails, because somebody has that key. With -if-none it then prints nothing and succeeds. Use -again when
// all operator keys are lost.
//
//	go run ./scripts/firstkey -table NAME [-if-none | -again]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/dynamotable"
)

func main() {
	name := flag.String("table", "", "the stage's core table: the output CoreTable of its data stack")
	again := flag.Bool("again", false, "make another organization beside those that there are")
	ifNone := flag.Bool("if-none", false, "print nothing, and succeed, where somebody has a key already")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *name, *ifNone, *again); err != nil {
		fmt.Fprintln(os.Stderr, "firstkey:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, name string, ifNone, again bool) error {
	if name == "" {
		return fmt.Errorf("-table is required")
	}
	account, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	machine := host.System()
	store := record.New(dynamotable.New(dynamodb.NewFromConfig(account), name, machine.Now), &memblob.Store{}, machine)
	return first(ctx, out, store, ifNone, again)
}

// entered returns the id of an organization that has a key. It is empty if there is none. A first start makes the key
// last, so one that was cut off has left an organization without a key.
func entered(ctx context.Context, store *record.Store) (string, error) {
	for after := ""; ; {
		page, err := record.OldestResources[catalog.Organization](ctx, store, record.System(), after, 100)
		if err != nil {
			return "", err
		}
		for _, o := range page.Rows {
			keys, err := record.Resources[catalog.APIKey](ctx, store, record.Of(o.Value.ID), "", 1)
			if err != nil {
				return "", err
			}
			if len(keys.Rows) > 0 {
				return o.Value.ID, nil
			}
		}
		if after = page.Next; after == "" {
			return "", nil
		}
	}
}

// first makes the first key of a store and prints it.
func first(ctx context.Context, out io.Writer, store *record.Store, ifNone, again bool) error {
	there, err := entered(ctx, store)
	if err != nil {
		return err
	}
	if there != "" && ifNone {
		return store.EnsureDeployment(ctx)
	}
	if there != "" && !again {
		return fmt.Errorf("organization %s is there already: its operator key is with whoever deployed this first; "+
			"-again makes another organization with a key of its own", there)
	}
	if err := store.EnsureDeployment(ctx); err != nil {
		return err
	}
	// It sets no secret that would have to be sealed.
	made, err := tenant.New(store, store.Cached(), host.System(), tenant.Defaults{}, nil).Bootstrap(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(map[string]string{
		"organization_id": made.Organization.ID, "agent_id": made.Agent.ID, "key": made.Key,
	})
}
