package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecr"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3vectors"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/jsii-runtime-go"

	"agentplatform/infra/stage"
	"agentplatform/internal/store/table/dynamotable"
)

// data is the resources that hold data which must not be lost.
type data struct {
	Core     awsdynamodb.TableV2
	Feed     awsdynamodb.TableV2
	Bucket   awss3.Bucket
	Index    *string // the name of the vector bucket
	IndexARN *string
	Key      awskms.Key               // wraps organizations' data keys
	Secret   awssecretsmanager.Secret // of the deployment
	// of the stream service; make deploy pushes to it after this stack and before the service's
	Images awsecr.Repository
}

// recoveryDays is how far back the core table can be restored. The objects that it named then are kept for as long.
const recoveryDays = 35

// warm returns the throughput of a table from its first minute on; nil: that of a new table. Each index begins with
// 4,000 write units of its own. A run writes 31 units, of which the busiest index takes 2. That is enough up to 62,000
// units, which is more than a table's first quota.
func warm(s stage.Stage) *awsdynamodb.WarmThroughput {
	if s.WarmWrites == 0 && s.WarmReads == 0 {
		return nil
	}
	const newWrites, newReads = 4000, 12_000
	return &awsdynamodb.WarmThroughput{
		WriteUnitsPerSecond: jsii.Number(max(s.WarmWrites, newWrites)),
		ReadUnitsPerSecond:  jsii.Number(max(s.WarmReads, newReads)),
	}
}

func newData(stack awscdk.Stack, s stage.Stage) *data {
	keep := awscdk.RemovalPolicy_DESTROY
	if s.Precious {
		keep = awscdk.RemovalPolicy_RETAIN
	}
	d := &data{Bucket: blobs(stack)}
	d.tables(stack, s, keep)
	d.Index, d.IndexARN = vectors(stack, s)
	d.Key = awskms.NewKey(stack, jsii.String("SealingKey"),
		&awskms.KeyProps{EnableKeyRotation: jsii.Bool(true), RemovalPolicy: keep})
	d.Secret = awssecretsmanager.NewSecret(stack, jsii.String("Secrets"), &awssecretsmanager.SecretProps{
		RemovalPolicy: keep, GenerateSecretString: &awssecretsmanager.SecretStringGenerator{
			SecretStringTemplate: jsii.String("{}"), GenerateStringKey: jsii.String("WEBHOOK_SECRET"),
			PasswordLength: jsii.Number(48), ExcludePunctuation: jsii.Bool(true),
		},
	})
	d.Images = awsecr.NewRepository(stack, jsii.String("Images"), &awsecr.RepositoryProps{
		ImageScanOnPush: jsii.Bool(true), ImageTagMutability: awsecr.TagMutability_IMMUTABLE, RemovalPolicy: keep,
		EmptyOnDelete:  jsii.Bool(!s.Precious),
		LifecycleRules: &[]*awsecr.LifecycleRule{{MaxImageCount: jsii.Number(10)}},
	})
	// Each value that the service stack imports is exported, even if nothing uses it. Otherwise the export would vanish
	// with its last use, while the deployed service still imports it. CloudFormation refuses that.
	for _, value := range []*string{
		d.Core.TableArn(), d.Core.TableName(), d.Feed.TableArn(), d.Feed.TableName(), d.Bucket.BucketArn(),
		d.Bucket.BucketName(), d.Key.KeyArn(), d.Key.KeyId(), d.Secret.SecretArn(), d.Images.RepositoryArn(),
		d.Images.RepositoryName(), stack.StackId(),
	} {
		stack.ExportValue(value, nil)
	}
	output(stack, "ImageRepository", d.Images.RepositoryUri())
	output(stack, "CoreTable", d.Core.TableName())
	output(stack, "FeedTable", d.Feed.TableName())
	output(stack, "Bucket", d.Bucket.BucketName())
	output(stack, "VectorBucket", d.Index)
	return d
}

func attribute(name string) *awsdynamodb.Attribute {
	return &awsdynamodb.Attribute{Name: jsii.String(name), Type: awsdynamodb.AttributeType_STRING}
}

func (d *data) tables(stack awscdk.Stack, s stage.Stage, keep awscdk.RemovalPolicy) {
	layout := dynamotable.Layout()
	var indexes []*awsdynamodb.GlobalSecondaryIndexPropsV2
	for _, index := range layout.Indexes {
		indexes = append(indexes, &awsdynamodb.GlobalSecondaryIndexPropsV2{
			IndexName: jsii.String(index.Name), PartitionKey: attribute(index.PartitionKey),
			SortKey:        attribute(index.SortKey),
			ProjectionType: awsdynamodb.ProjectionType_KEYS_ONLY,
		})
	}
	d.Core = awsdynamodb.NewTableV2(stack, jsii.String("Core"), &awsdynamodb.TablePropsV2{
		PartitionKey: attribute(layout.PartitionKey), SortKey: attribute(layout.SortKey),
		TimeToLiveAttribute:    jsii.String(layout.TTL),
		WarmThroughput:         warm(s),
		GlobalSecondaryIndexes: &indexes, Billing: awsdynamodb.Billing_OnDemand(nil), RemovalPolicy: keep,
		DeletionProtection: jsii.Bool(s.Precious),
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
			PointInTimeRecoveryEnabled: jsii.Bool(true), RecoveryPeriodInDays: jsii.Number(recoveryDays),
		},
	})
	// frames live for minutes: nothing to back up
	d.Feed = awsdynamodb.NewTableV2(stack, jsii.String("Feed"), &awsdynamodb.TablePropsV2{
		PartitionKey: attribute(layout.PartitionKey), SortKey: attribute(layout.SortKey),
		TimeToLiveAttribute: jsii.String(layout.TTL),
		Billing:             awsdynamodb.Billing_OnDemand(nil), RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
}

func blobs(stack awscdk.Stack) awss3.Bucket {
	return awss3.NewBucket(stack, jsii.String("Blobs"), &awss3.BucketProps{
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(), EnforceSSL: jsii.Bool(true),
		Encryption: awss3.BucketEncryption_S3_MANAGED,
		// A table that is restored to an earlier time names objects that have been deleted since.
		Versioned:     jsii.Bool(true),
		RemovalPolicy: awscdk.RemovalPolicy_RETAIN, // CloudFormation cannot delete a bucket with objects
		// Pages of the admin panel send and fetch large content by presigned URLs. Such a URL is the right to do so for
		// any client, so the origin of a browser's request does not matter.
		Cors: &[]*awss3.CorsRule{{
			AllowedMethods: &[]awss3.HttpMethods{awss3.HttpMethods_PUT, awss3.HttpMethods_GET},
			AllowedOrigins: jsii.Strings("*"), AllowedHeaders: jsii.Strings("*"), MaxAge: jsii.Number(3600),
		}},
		LifecycleRules: &[]*awss3.LifecycleRule{{
			AbortIncompleteMultipartUploadAfter: awscdk.Duration_Days(jsii.Number(1)),
			NoncurrentVersionExpiration:         awscdk.Duration_Days(jsii.Number(recoveryDays)),
			ExpiredObjectDeleteMarker:           jsii.Bool(true),
		}},
	})
}

// vectors makes the vector bucket of the index of documents, and returns its name and its ARN. Its content is made from
// the bucket of blobs, and can be made again. The bucket is kept all the same when the stack is deleted, as
// CloudFormation cannot delete one with indexes. The name is known before the bucket exists. A stack that is deleted
// and made again has another name.
func vectors(stack awscdk.Stack, s stage.Stage) (name, arn *string) {
	const idOfStack = 2 // in arn:…:stack/NAME/ID
	life := awscdk.Fn_Select(jsii.Number(idOfStack), awscdk.Fn_Split(jsii.String("/"), stack.StackId(), nil))
	name = awscdk.Fn_Join(jsii.String("-"), &[]*string{jsii.String("agents"), jsii.String(s.Name), life})
	bucket := awss3vectors.NewCfnVectorBucket(stack, jsii.String("Vectors"), &awss3vectors.CfnVectorBucketProps{
		VectorBucketName: name,
	})
	bucket.ApplyRemovalPolicy(awscdk.RemovalPolicy_RETAIN, nil)
	return name, stack.FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("s3vectors"), Resource: jsii.String("bucket"), ResourceName: name,
	})
}
