//go:build integration

package local

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/awstest"
)

// The stage that make integration synthesizes, and its output folder.
const (
	stageName = "dev"
	assembly  = "../../cdk.out"
)

const bucket = "local-deployment"

// deployment is the stacks of one world.
type deployment struct {
	world   string
	account aws.Config
	outputs map[string]string
	left    map[string][]string // by stack: the resources that were left out
	guards  *guards
}

// published uploads the functions' archives, once for all worlds.
var published = sync.OnceValue(func() error {
	ctx := context.Background()
	account, err := awstest.Load(ctx)
	if err != nil {
		return err
	}
	client := s3.NewFromConfig(account, func(o *s3.Options) { o.UsePathStyle = true })
	var list struct {
		Files map[string]struct {
			Source       struct{ Path, Packaging string }
			Destinations map[string]struct{ BucketName, ObjectKey string }
		}
	}
	raw, err := os.ReadFile(filepath.Join(assembly, "Service.assets.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	if err := ensureBucket(ctx, client, bucket); err != nil {
		return err
	}
	for _, file := range list.Files {
		if file.Source.Packaging != "zip" {
			continue // the template, which is uploaded after filtering
		}
		archive, err := zipped(filepath.Join(assembly, file.Source.Path))
		if err != nil {
			return err
		}
		for _, to := range file.Destinations {
			name := strings.NewReplacer("${AWS::AccountId}", "000000000000", "${AWS::Region}",
				account.Region).Replace(to.BucketName)
			if err := ensureBucket(ctx, client, name); err != nil {
				return err
			}
			if _, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: &name, Key: aws.String(to.ObjectKey),
				Body: bytes.NewReader(archive)}); err != nil {
				return err
			}
		}
	}
	return nil
})

func ensureBucket(ctx context.Context, client *s3.Client, name string) error {
	_, err := client.CreateBucket(ctx,
		&s3.CreateBucketInput{Bucket: &name, CreateBucketConfiguration: &s3types.CreateBucketConfiguration{
			LocationConstraint: s3types.BucketLocationConstraint(client.Options().Region),
		}})
	if err != nil && !strings.Contains(err.Error(), "BucketAlready") {
		return err
	}
	return nil
}

func zipped(folder string) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	if err := errors.Join(w.AddFS(os.DirFS(folder)), w.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// deploying is held while a world's stacks are made. LocalStack does not make several stacks faster in parallel.
var deploying sync.Mutex

// deploy makes the stacks of a world and deletes them at the end of the test.
func deploy(t testing.TB, world string, settings map[string]string, g *guards) *deployment {
	t.Helper()
	require.NoError(t, published())
	deploying.Lock()
	defer deploying.Unlock()
	d := &deployment{world: world, account: awstest.Config(t), outputs: map[string]string{},
		left: map[string][]string{}, guards: g}
	client := cloudformation.NewFromConfig(d.account)
	objects := s3.NewFromConfig(d.account, func(o *s3.Options) { o.UsePathStyle = true })
	for _, what := range []string{"Data", "Service"} {
		raw, err := os.ReadFile(filepath.Join(assembly, what+".template.json"))
		require.NoError(t, err, "make integration synthesises the stacks first")
		raw = bytes.ReplaceAll(raw, []byte("agents-"+stageName), []byte("agents-"+world))
		text, left, err := filtered(raw, settings, g.of)
		require.NoError(t, err)
		d.left[what] = left
		name := "agents-" + world + "-" + strings.ToLower(what)
		_, err = objects.PutObject(t.Context(),
			&s3.PutObjectInput{Bucket: aws.String(bucket), Key: &name, Body: strings.NewReader(text)})
		require.NoError(t, err)
		_, err = client.CreateStack(t.Context(), &cloudformation.CreateStackInput{
			StackName: &name, TemplateURL: aws.String(fmt.Sprintf("%s/%s/%s", *d.account.BaseEndpoint, bucket, name)),
			Capabilities: []types.Capability{types.CapabilityCapabilityIam, types.CapabilityCapabilityNamedIam},
		})
		require.NoError(t, err)
		t.Cleanup(func() {
			if _, err := client.DeleteStack(awstest.Cleaning(),
				&cloudformation.DeleteStackInput{StackName: &name}); err != nil {
				t.Errorf("stack %s is left: %v", name, err)
			}
		})
		d.await(t, client, name)
	}
	g.know(t, d, client)
	return d
}

// stalled is the time after which a deploy is given up if no resource of a stack is completed. The time for all
// resources depends on the machine.
const stalled = 5 * time.Minute

func (d *deployment) await(t testing.TB, client *cloudformation.Client, name string) {
	t.Helper()
	describe := &cloudformation.DescribeStacksInput{StackName: &name}
	made, status := 0, types.StackStatusCreateInProgress
	for since := time.Now(); status == types.StackStatusCreateInProgress && time.Since(since) < stalled; {
		select {
		case <-t.Context().Done():
			require.NoError(t, t.Context().Err(), "stack %s", name)
		case <-time.After(time.Second):
		}
		events, err := client.DescribeStackEvents(t.Context(),
			&cloudformation.DescribeStackEventsInput{StackName: &name})
		require.NoError(t, err)
		if n := len(events.StackEvents); n > made {
			made, since = n, time.Now()
		}
		for _, e := range events.StackEvents {
			if strings.Contains(string(e.ResourceStatus), "FAILED") {
				t.Log(aws.ToString(e.LogicalResourceId), aws.ToString(e.ResourceType),
					aws.ToString(e.ResourceStatusReason))
			}
		}
		out, err := client.DescribeStacks(t.Context(), describe)
		require.NoError(t, err)
		status = out.Stacks[0].StackStatus
	}
	require.Equal(t, types.StackStatusCreateComplete, status, "stack %s", name)
	out, err := client.DescribeStacks(t.Context(), describe)
	require.NoError(t, err)
	for _, o := range out.Stacks[0].Outputs {
		d.outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
}
