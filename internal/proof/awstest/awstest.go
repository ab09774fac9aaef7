//go:build integration

// Package awstest makes AWS resources for tests at the endpoint in AWS_ENDPOINT_URL: tables, queues, state
// machines, buckets. Each is removed at the end of its test.
//
// Only tests import it. It uses the SDK and the layouts that the adapters publish.
package awstest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/table/dynamotable"
)

// Config returns the configuration of clients for the endpoint. The test fails if AWS_ENDPOINT_URL is not set.
func Config(t testing.TB) aws.Config {
	t.Helper()
	c, err := Load(t.Context())
	require.NoError(t, err)
	return c
}

// Load is Config outside a test. It fails if AWS_ENDPOINT_URL is not set or the configuration cannot be loaded.
func Load(ctx context.Context) (aws.Config, error) {
	if os.Getenv("AWS_ENDPOINT_URL") == "" {
		return aws.Config{}, errors.New("integration tests need an endpoint in AWS_ENDPOINT_URL: make integration")
	}
	return config.LoadDefaultConfig(ctx)
}

var names atomic.Int64

// Name returns a unique resource name.
func Name(prefix string) string {
	return fmt.Sprintf("%s-%d-%d", prefix, time.Now().UnixNano(), names.Add(1))
}

// Table makes an empty table with all indexes and returns its name.
func Table(t testing.TB, client *dynamodb.Client) string {
	t.Helper()
	layout, name := dynamotable.Layout(), Name("table")
	in := &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		KeySchema: keySchema(layout.PartitionKey, layout.SortKey),
	}
	attributes := []string{layout.PartitionKey, layout.SortKey}
	for _, index := range layout.Indexes {
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: aws.String(index.Name), KeySchema: keySchema(index.PartitionKey, index.SortKey),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		})
		attributes = append(attributes, index.PartitionKey, index.SortKey)
	}
	for _, a := range attributes {
		in.AttributeDefinitions = append(in.AttributeDefinitions,
			types.AttributeDefinition{AttributeName: aws.String(a), AttributeType: types.ScalarAttributeTypeS})
	}
	_, err := client.CreateTable(t.Context(), in)
	require.NoError(t, err)
	require.NoError(t, dynamodb.NewTableExistsWaiter(client).Wait(t.Context(),
		&dynamodb.DescribeTableInput{TableName: &name}, time.Minute))
	t.Cleanup(func() {
		_, err := client.DeleteTable(Cleaning(), &dynamodb.DeleteTableInput{TableName: &name})
		if err != nil && !strings.Contains(err.Error(), "ResourceNotFound") {
			t.Errorf("table %s is left: %v", name, err)
		}
	})
	return name
}

func keySchema(part, sort string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(part), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(sort), KeyType: types.KeyTypeRange},
	}
}

// Cleaning returns the context for the removal of a test's resources. The test's own context has ended by then.
func Cleaning() context.Context { return context.Background() }

// Queue makes a queue and returns its URL.
func Queue(t testing.TB, client *sqs.Client) string {
	t.Helper()
	made, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(Name("queue"))})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := client.DeleteQueue(Cleaning(), &sqs.DeleteQueueInput{QueueUrl: made.QueueUrl})
		require.NoError(t, err)
	})
	return aws.ToString(made.QueueUrl)
}

// StateMachine makes a state machine and returns its ARN.
func StateMachine(t testing.TB, client *sfn.Client, definition string) string {
	t.Helper()
	made, err := client.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{
		Name: aws.String(Name("machine")), Definition: &definition,
		RoleArn: aws.String("arn:aws:iam::000000000000:role/test"),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := client.DeleteStateMachine(Cleaning(),
			&sfn.DeleteStateMachineInput{StateMachineArn: made.StateMachineArn})
		require.NoError(t, err)
	})
	return aws.ToString(made.StateMachineArn)
}

// Key makes a KMS key and returns its id.
func Key(t testing.TB, client *kms.Client) string {
	t.Helper()
	made, err := client.CreateKey(t.Context(), &kms.CreateKeyInput{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := client.ScheduleKeyDeletion(Cleaning(),
			&kms.ScheduleKeyDeletionInput{KeyId: made.KeyMetadata.KeyId, PendingWindowInDays: aws.Int32(7)})
		require.NoError(t, err)
	})
	return aws.ToString(made.KeyMetadata.KeyId)
}

// S3 returns a client that puts the bucket's name into the path, as local endpoints require.
func S3(t testing.TB) *s3.Client {
	return s3.NewFromConfig(Config(t), func(o *s3.Options) { o.UsePathStyle = true })
}

// Bucket makes a bucket and returns its name.
func Bucket(t testing.TB, client *s3.Client) string {
	t.Helper()
	name := strings.ToLower(Name("bucket"))
	_, err := client.CreateBucket(t.Context(),
		&s3.CreateBucketInput{Bucket: &name, CreateBucketConfiguration: &s3types.CreateBucketConfiguration{
			LocationConstraint: s3types.BucketLocationConstraint(client.Options().Region),
		}})
	require.NoError(t, err)
	t.Cleanup(func() {
		list, err := client.ListObjectsV2(Cleaning(), &s3.ListObjectsV2Input{Bucket: &name})
		require.NoError(t, err)
		for _, o := range list.Contents {
			_, err := client.DeleteObject(Cleaning(), &s3.DeleteObjectInput{Bucket: &name, Key: o.Key})
			require.NoError(t, err)
		}
		_, err = client.DeleteBucket(Cleaning(), &s3.DeleteBucketInput{Bucket: &name})
		require.NoError(t, err)
	})
	return name
}
