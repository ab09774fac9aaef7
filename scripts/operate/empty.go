package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// empty deletes every version of every object in the stage's bucket, for good: a bucket has to be empty to be deleted.
func (o *operator) empty(ctx context.Context, what string) error {
	if what != "blobs" {
		return errors.New("say empty blobs")
	}
	bucket, count := o.outputs["Bucket"], 0
	err := o.versions(ctx, func(page []version) error {
		count += len(page)
		if !o.do || len(page) == 0 {
			return nil
		}
		var all []types.ObjectIdentifier // 1,000 at most, as many as one call deletes
		for _, v := range page {
			all = append(all, types.ObjectIdentifier{Key: &v.key, VersionId: &v.id})
		}
		out, err := o.objects.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &bucket,
			Delete: &types.Delete{Objects: all, Quiet: aws.Bool(true)}})
		if err == nil && len(out.Errors) > 0 {
			err = fmt.Errorf("%s stays: %s", aws.ToString(out.Errors[0].Key), aws.ToString(out.Errors[0].Message))
		}
		return err
	})
	if err == nil {
		o.sum("%d versions of objects in %s are deleted", count, bucket)
	}
	return err
}
