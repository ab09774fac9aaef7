//go:build infra

package stacks_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// The requirements on the data that tables and the bucket keep, and on the service stack's knowledge of it.

var dataRequirements = []requirement{
	{"tables expire what has a life, and the core can be put back", func(all templates) (wrong []string) {
		for id, table := range all.of("AWS::DynamoDB::GlobalTable") {
			if object(table["TimeToLiveSpecification"])["AttributeName"] != "ttl" {
				wrong = append(wrong, id+" expires nothing")
			}
			for _, index := range list(table["GlobalSecondaryIndexes"]) {
				if object(object(index)["Projection"])["ProjectionType"] != "KEYS_ONLY" {
					wrong = append(wrong, id+" has an index of more than keys")
				}
			}
		}
		replicas := text(all.the("AWS::DynamoDB::GlobalTable", "Core")["Replicas"])
		if !strings.Contains(replicas, `"PointInTimeRecoveryEnabled":true`) {
			wrong = append(wrong, "the core cannot be put back")
		}
		return wrong
	}, func(all templates) {
		object(object(list(all.the("AWS::DynamoDB::GlobalTable",
			"Core")["Replicas"])[0])["PointInTimeRecoverySpecification"])["PointInTimeRecoveryEnabled"] = false
	}},
	{"objects that an earlier table names are there", func(all templates) (wrong []string) {
		bucket := all.the("AWS::S3::Bucket", "Blobs")
		if object(bucket["VersioningConfiguration"])["Status"] != "Enabled" {
			wrong = append(wrong, "the bucket has no versions")
		}
		kept := text(object(bucket["LifecycleConfiguration"])["Rules"])
		recovery := number(object(object(list(all.the("AWS::DynamoDB::GlobalTable",
			"Core")["Replicas"])[0])["PointInTimeRecoverySpecification"])["RecoveryPeriodInDays"])
		if !strings.Contains(kept, fmt.Sprintf(`"NoncurrentDays":%v`, recovery)) {
			wrong = append(wrong, fmt.Sprint("the table goes back ", recovery, " days, objects: ", kept))
		}
		for id, p := range all.of("AWS::IAM::Policy") {
			if strings.Contains(text(p), "s3:DeleteObjectVersion") || strings.Contains(text(p), `"s3:*"`) {
				wrong = append(wrong, id+" may destroy versions")
			}
		}
		return wrong
	}, func(all templates) { delete(all.the("AWS::S3::Bucket", "Blobs"), "VersioningConfiguration") }},
	{"pages may send files to the bucket", func(all templates) (wrong []string) {
		if !strings.Contains(text(all.the("AWS::S3::Bucket", "Blobs")["CorsConfiguration"]), `"PUT"`) {
			wrong = append(wrong, "the bucket takes no file of a page")
		}
		return wrong
	}, func(all templates) { delete(all.the("AWS::S3::Bucket", "Blobs"), "CorsConfiguration") }},
	{"the index of documents is reached by its indexes alone, and kept", func(all templates) (wrong []string) {
		bucket := all.the("AWS::S3Vectors::VectorBucket", "Vectors")
		name := text(bucket["VectorBucketName"])
		if !strings.Contains(name, "AWS::StackId") {
			wrong = append(wrong, "another life of the stack would have the same bucket: "+name)
		}
		for id, v := range object(all["Data"]["Resources"]) {
			if r := object(v); r["Type"] == "AWS::S3Vectors::VectorBucket" && r["DeletionPolicy"] != "Retain" {
				wrong = append(wrong, id+" would be deleted, which CloudFormation cannot while it has indexes")
			}
		}
		for id, p := range all.of("AWS::IAM::Policy") {
			for _, s := range list(object(p["PolicyDocument"])["Statement"]) {
				statement := object(s)
				resource := text(statement["Resource"])
				action := text(statement["Action"])
				ofBucket := action == `"s3vectors:GetVectorBucket"`
				if strings.Contains(action, "s3vectors:") && (!strings.Contains(resource, ":bucket/") ||
					strings.Contains(resource, "/index/*") == ofBucket) {
					wrong = append(wrong, id+" may "+action+" on "+resource)
				}
			}
		}
		return wrong
	}, func(all templates) { all.the("AWS::S3Vectors::VectorBucket", "Vectors")["VectorBucketName"] = "agents" }},
	{"the service imports what the data stack always exports", func(all templates) (wrong []string) {
		var exported []string
		for _, o := range object(all["Data"]["Outputs"]) {
			if name := object(object(o)["Export"])["Name"]; name != nil {
				exported = append(exported, strings.TrimPrefix(fmt.Sprint(name), "agents-prod-data:"))
			}
		}
		slices.Sort(exported)
		if !slices.Equal(exported, exports) {
			wrong = append(wrong, fmt.Sprint("the data stack exports ", exported, ". An export that goes while the "+
				"service still imports it stops every deploy: add to the list, and never take from it in the deploy "+
				"that stops using it"))
		}
		return wrong
	}, func(all templates) {
		for name, o := range object(all["Data"]["Outputs"]) {
			if object(o)["Export"] != nil {
				delete(object(all["Data"]["Outputs"]), name)
				return
			}
		}
	}},
	{"the core table is as warm as the stage says, and takes no less than a new one", func(all templates) (
		wrong []string,
	) {
		want := properties{"ReadUnitsPerSecond": 12_000.0, "WriteUnitsPerSecond": 10_000.0}
		if warm := all.the("AWS::DynamoDB::GlobalTable", "Core")["WarmThroughput"]; !reflect.DeepEqual(warm, want) {
			wrong = append(wrong, text(warm))
		}
		return wrong
	}, func(all templates) { delete(all.the("AWS::DynamoDB::GlobalTable", "Core"), "WarmThroughput") }},
}

// exports has the names under which the service knows the data stack's resources.
var exports = []string{
	"ExportsOutputFnGetAttBlobsF0F01DC6Arn220BCD82", "ExportsOutputFnGetAttCoreC65142A7ArnA1AA4B71",
	"ExportsOutputFnGetAttFeed908EF2E5Arn88DE9EF6", "ExportsOutputFnGetAttImages2D38C313Arn6C6DDC6E",
	"ExportsOutputFnGetAttSealingKey98C9818DArn294F2DA0", "ExportsOutputRefAWSStackIdB2DD5BAA",
	"ExportsOutputRefBlobsF0F01DC64D846A39", "ExportsOutputRefCoreC65142A72FB2EE7E",
	"ExportsOutputRefFeed908EF2E5E4FE5E5A", "ExportsOutputRefImages2D38C3131DF9B1C4",
	"ExportsOutputRefSealingKey98C9818D6F428BC9", "ExportsOutputRefSecretsA3BCC2E9DC08B2BB",
}
