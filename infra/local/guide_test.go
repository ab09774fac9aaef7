//go:build integration

package local

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/awstest"
	"agentplatform/internal/store/table/dynamotable"
)

// guideCommands returns the commands of the guide that LocalStack can run: the blocks after the mark, by their heading.
func guideCommands(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operate.md")
	require.NoError(t, err)
	all := map[string]string{}
	block := regexp.MustCompile("(?s)<!-- tried on LocalStack -->\n```sh\n(.*?)```")
	for _, part := range strings.Split(string(page), "\n### ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			all[heading] += m[1]
		}
	}
	return all
}

// guidedFor is the time limit for the commands under one heading, without the compilation of operate. operate itself
// waits three minutes for each mapping of a queue.
const guidedFor = 15 * time.Minute

// guided runs commands of the guide, in which operate is called as there, and returns their output.
func (w world) guided(t *testing.T, operate, script string, environ ...string) string {
	t.Helper()
	require.NotEmpty(t, script, "the guide has no such commands")
	ctx, cancel := context.WithTimeout(t.Context(), guidedFor)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c",
		`operate() { "`+operate+`" -stage "$STAGE" "$@"; }`+"\n"+script)
	command.Env = append(append(os.Environ(), "STAGE="+w.world, "BASE_URL="+w.URL, "OPERATOR_KEY="+w.Key), environ...)
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.Output()
	require.NoError(t, err, "%s\n%s", out, complaints.String())
	return string(out)
}

// operator compiles the program of the operator's commands, and returns its path.
func operator(t *testing.T) string {
	t.Helper()
	operate := filepath.Join(t.TempDir(), "operate")
	built, err := exec.CommandContext(t.Context(), "go", "build", "-o", operate,
		"../../scripts/operate").CombinedOutput()
	require.NoError(t, err, string(built))
	return operate
}

// theRunbookWorks leaves the world with the new operator's key, after the rotation.
func theRunbookWorks(t *testing.T, w *world) {
	operate := operator(t)
	guide := guideCommands(t)
	t.Run("Restoring", func(t *testing.T) { w.isRestored(t, operate, guide["Restoring"]) })
	t.Run("Rotating", func(t *testing.T) { w.isRotated(t, operate, guide["Rotating"]) })
}

// isRestored puts a table and changed objects back to a time before a change, and expects their earlier content.
func (w world) isRestored(t *testing.T, operate, script string) {
	tables := dynamodb.NewFromConfig(w.account)
	objects := s3.NewFromConfig(w.account, func(o *s3.Options) { o.UsePathStyle = true })
	core, bucket := w.outputs["CoreTable"], aws.String(w.outputs["Bucket"])
	put := func(key, text string) time.Time {
		_, err := objects.PutObject(t.Context(),
			&s3.PutObjectInput{Bucket: bucket, Key: &key, Body: strings.NewReader(text)})
		require.NoError(t, err)
		head, err := objects.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: bucket, Key: &key})
		require.NoError(t, err)
		return aws.ToTime(head.LastModified)
	}
	put("guide/changed ü", "then")
	// S3's times are in seconds. The earlier state, the time to go back to, and the later state are in three of them.
	then := put("guide/deleted", "then").Truncate(time.Second).Add(time.Second)
	ticks := 0 // each an object of its own, which nothing has to be put back for
	require.Eventually(t, func() bool {
		ticks++
		return put(fmt.Sprint("guide/tick ", ticks), "tock").Truncate(time.Second).After(then)
	}, 2*time.Minute, 100*time.Millisecond)
	put("guide/changed ü", "now")
	_, err := objects.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: bucket, Key: aws.String("guide/deleted")})
	require.NoError(t, err)

	earlier := awstest.Table(t, tables)
	before := w.items(t, tables, core)
	for _, i := range before {
		_, err := tables.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &earlier, Item: i})
		require.NoError(t, err)
	}
	undone := w.begin(t, w.agent(t), "message", "what will be undone")
	w.await(t, undone, "completed", time.Minute) // nothing may write while the table is restored

	printed := w.guided(t, operate, script, "EARLIER="+earlier, "THEN="+then.UTC().Format(time.RFC3339))
	assert.Contains(t, printed, "this is a dry run; add -do to do it", "it is said before it is done")
	assert.Contains(t, printed, "2 objects are restored")
	assert.Equal(t, http.StatusNotFound, w.get(t, "/runs/"+undone).status, "what came later is gone")
	after := w.items(t, tables, core)
	for key := range before {
		assert.Contains(t, after, key)
	}
	for _, key := range []string{"guide/changed ü", "guide/deleted"} {
		got, err := objects.GetObject(t.Context(), &s3.GetObjectInput{Bucket: bucket, Key: &key})
		if assert.NoError(t, err, key) {
			text := make([]byte, 4)
			_, _ = got.Body.Read(text)
			_ = got.Body.Close()
			assert.Equal(t, "then", string(text), key)
		}
	}
	// and all works again
	functions := lambda.NewFromConfig(w.account)
	for output, name := range w.outputs {
		if !strings.HasSuffix(output, "FunctionName") {
			continue
		}
		f, err := functions.GetFunction(t.Context(), &lambda.GetFunctionInput{FunctionName: &name})
		require.NoError(t, err)
		assert.NotContains(t, f.Tags, "stopped-with", output)
		if f.Concurrency != nil && f.Concurrency.ReservedConcurrentExecutions != nil {
			assert.NotZero(t, *f.Concurrency.ReservedConcurrentExecutions, output)
		}
	}
	w.await(t, w.begin(t, w.agent(t), "message", "after it"), "completed", time.Minute)
}

// items returns a table's items, by their keys.
func (w world) items(t *testing.T, client *dynamodb.Client, table string) map[string]map[string]types.AttributeValue {
	t.Helper()
	layout, all := dynamotable.Layout(), map[string]map[string]types.AttributeValue{}
	for pages := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{TableName: &table,
		ConsistentRead: aws.Bool(true)}); pages.HasMorePages(); {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		for _, i := range page.Items {
			part, _ := i[layout.PartitionKey].(*types.AttributeValueMemberS)
			at, _ := i[layout.SortKey].(*types.AttributeValueMemberS)
			all[part.Value+" "+at.Value] = i
		}
	}
	return all
}

func (w *world) isRotated(t *testing.T, operate, script string) {
	printed := w.guided(t, operate, script, "NEW_SECRET=a-new-secret-of-the-deployment")
	assert.Contains(t, printed, "WEBHOOK_SECRET")
	id := ""
	for _, variable := range w.environ(t, "WorkerFunctionName") {
		if arn, is := strings.CutPrefix(variable, "SECRETS_ARN="); is {
			id = arn
		}
	}
	out, err := secretsmanager.NewFromConfig(w.account).GetSecretValue(t.Context(),
		&secretsmanager.GetSecretValueInput{SecretId: &id})
	require.NoError(t, err)
	var kept map[string]string
	require.NoError(t, json.Unmarshal([]byte(*out.SecretString), &kept))
	assert.Equal(t, "a-new-secret-of-the-deployment", kept["WEBHOOK_SECRET"])
	// the last answer has the new key, and the old one is good no more
	var key struct{ Key string }
	_, answers, _ := strings.Cut(printed, "{")
	for d := json.NewDecoder(strings.NewReader("{" + answers)); d.More(); {
		key.Key = ""
		require.NoError(t, d.Decode(&key), printed)
	}
	assert.Equal(t, http.StatusUnauthorized, w.get(t, "/agents").status)
	w.Key = key.Key
	assert.Equal(t, http.StatusOK, w.get(t, "/agents").status)
}
