package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// empty deletes every version of every object in the stage's bucket, for ever. Only an empty bucket can be deleted.
func (o *operator) empty(ctx context.Context, what string) error {
	if what != "blobs" {
		return errors.New("say empty blobs")
	}
	bucket, count := o.outputs["Bucket"], 0
	for pages := s3.NewListObjectVersionsPaginator(o.objects, &s3.ListObjectVersionsInput{Bucket: &bucket}); pages.
		HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		var all []types.ObjectIdentifier // 1,000 at most, as many as one call deletes
		for _, v := range page.Versions {
			all = append(all, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
		}
		for _, v := range page.DeleteMarkers {
			all = append(all, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
		}
		count += len(all)
		if !o.do || len(all) == 0 {
			continue
		}
		out, err := o.objects.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &bucket,
			Delete: &types.Delete{Objects: all, Quiet: aws.Bool(true)}})
		if err != nil {
			return err
		}
		if len(out.Errors) > 0 {
			return fmt.Errorf("%s stays: %s", aws.ToString(out.Errors[0].Key), aws.ToString(out.Errors[0].Message))
		}
	}
	o.printf("%d versions of objects in %s are deleted", count, bucket)
	if !o.do {
		o.printf("this is a dry run; add -do to do it")
	}
	return nil
}
