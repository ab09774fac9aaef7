//go:build integration

package local

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/iam"
	"agentplatform/internal/proof/awstest"
)

// account is the ID of LocalStack's account.
const account = "000000000000"

// called are the calls of all worlds.
var called iam.Ledger

// granted reads the policies of the stacks.
var granted = sync.OnceValues(func() (*iam.Stacks, error) {
	templates := map[string][]byte{}
	for _, what := range []string{"Data", "Service"} {
		raw, err := os.ReadFile(filepath.Join(assembly, what+".template.json"))
		if err != nil {
			return nil, err
		}
		var t map[string]any
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, err
		}
		unversion(t) // functions are called without an alias here
		if templates[what], err = json.Marshal(t); err != nil {
			return nil, err
		}
	}
	region := os.Getenv("AWS_REGION")
	if region == "" {
		return nil, errors.New("the environment is not that of scripts/localstack.sh env: it has no AWS_REGION")
	}
	return iam.Read(templates, region, account)
})

// guards are the guards of a world's programs.
type guards struct {
	stacks    *iam.Stacks
	addresses map[string]string // by the programs' names
	names     atomic.Pointer[iam.Names]
	instead   atomic.Pointer[map[string]*url.URL] // where calls go instead, by service
}

func newGuards(t testing.TB, vectors string) *guards {
	t.Helper()
	stacks, err := granted()
	require.NoError(t, err)
	programs, err := stacks.Programs()
	require.NoError(t, err)
	service, err := url.Parse(*awstest.Config(t).BaseEndpoint)
	require.NoError(t, err)
	index, err := url.Parse(vectors)
	require.NoError(t, err)
	tables, err := url.Parse(os.Getenv("AWS_ENDPOINT_URL_DYNAMODB"))
	require.NoError(t, err)
	g := &guards{stacks: stacks, addresses: map[string]string{}}
	const connections = 512 // as many as there are parallel calls, so that each does not open a new one
	transport := &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true}
	for _, p := range programs {
		server := httptest.NewServer(&iam.Guard{
			Program: p, Stacks: stacks, Ledger: &called, Account: account, Transport: transport,
			Names: func() iam.Names {
				if n := g.names.Load(); n != nil {
					return *n
				}
				return nil
			},
			Backend: func(name string) *url.URL {
				if instead := g.instead.Load(); instead != nil && (*instead)[name] != nil {
					return (*instead)[name]
				}
				switch name {
				case "s3vectors":
					return index
				case "dynamodb":
					return tables
				}
				return service
			},
		})
		t.Cleanup(func() {
			server.CloseClientConnections()
			server.Close()
			transport.CloseIdleConnections()
		})
		g.addresses[p.Name] = server.URL
	}
	return g
}

// of returns the address of AWS for a function.
func (g *guards) of(id string) string { return g.addresses[g.stacks.Name(id)] }

// know gives the guards the names of the deployed resources. From then on they refuse calls.
func (g *guards) know(t testing.TB, d *deployment, client *cloudformation.Client) {
	t.Helper()
	physical := map[string]string{}
	d.eachResource(t, client, func(r cloudtypes.StackResourceSummary) {
		physical[aws.ToString(r.LogicalResourceId)] = aws.ToString(r.PhysicalResourceId)
	})
	names := g.stacks.Names(physical)
	bucket, err := g.stacks.Output("Data", "VectorBucket") // vectorserver has it, not CloudFormation
	require.NoError(t, err)
	names[d.outputs["VectorBucket"]] = bucket
	g.names.Store(&names)
}

// eachResource calls a function for each deployed resource.
func (d *deployment) eachResource(t testing.TB, client *cloudformation.Client,
	visit func(cloudtypes.StackResourceSummary),
) {
	t.Helper()
	for _, what := range []string{"data", "service"} {
		pages := cloudformation.NewListStackResourcesPaginator(client,
			&cloudformation.ListStackResourcesInput{StackName: aws.String("agents-" + d.world + "-" + what)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			require.NoError(t, err)
			for _, r := range page.StackResourceSummaries {
				visit(r)
			}
		}
	}
}

// physical returns the names of the deployed resources of a type, with their logical ids.
func (d *deployment) physical(t testing.TB, kind string) map[string]string {
	t.Helper()
	ids := map[string]string{}
	d.eachResource(t, cloudformation.NewFromConfig(d.account), func(r cloudtypes.StackResourceSummary) {
		if aws.ToString(r.ResourceType) == kind {
			ids[aws.ToString(r.PhysicalResourceId)] = aws.ToString(r.LogicalResourceId)
		}
	})
	return ids
}
