package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3vectors"
	"github.com/aws/jsii-runtime-go"

	"agentplatform/infra/stage"
)

// vectors makes the vector bucket of the index of documents, and returns its name and its ARN. What is in it is made
// from the bucket of blobs, and can be made again; it is kept all the same when the stack is deleted, as CloudFormation
// cannot delete one with indexes. The name is known before it is made: another life of the stack has another one.
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
