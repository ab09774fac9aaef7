package main

import "slices"

const (
	originList  = "com.amazonaws.global.cloudfront.origin-facing"
	originsPage = "https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/" +
		"private-content-vpc-origins.html#vpc-origins-supported-regions"
)

// noOrigins has the Regions where CloudFront reaches load balancers inside a VPC, each with the zones where it does not
// (originsPage, November 2026). It names zones by their ids, as their letters differ between accounts.
var noOrigins = map[string][]string{
	"us-east-1": {"use1-az3"}, "us-west-1": {"usw1-az2"}, "ap-northeast-1": {"apne1-az3"}, "ca-central-1": {"cac1-az3"},
	"us-east-2": nil, "us-west-2": nil, "af-south-1": nil, "ap-east-1": nil, "ap-east-2": nil, "ap-south-1": nil,
	"ap-south-2": nil, "ap-northeast-2": nil, "ap-northeast-3": nil, "ap-southeast-1": nil, "ap-southeast-2": nil,
	"ap-southeast-3": nil, "ap-southeast-4": nil, "ap-southeast-5": nil, "ap-southeast-7": nil, "ca-west-1": nil,
	"eu-central-1": nil, "eu-central-2": nil, "eu-north-1": nil, "eu-south-1": nil, "eu-south-2": nil, "eu-west-1": nil,
	"eu-west-2": nil, "eu-west-3": nil, "il-central-1": nil, "me-central-1": nil, "me-south-1": nil,
	"mx-central-1": nil,
	"sa-east-1":    nil,
}

// admitted returns the names of the zones that may have a VPC origin.
func (a *answers) admitted() []string {
	var names []string
	for _, z := range a.zones {
		if !slices.Contains(noOrigins[a.region], z.id) {
			names = append(names, z.name)
		}
	}
	slices.Sort(names)
	return names
}

// choice returns the two zones of the network. A stage keeps its zones. Others would replace its subnets, and the load
// balancer with them.
func (a *answers) choice() []string {
	if len(a.kept) == 2 {
		return a.kept
	}
	names := a.admitted()
	return names[:min(2, len(names))]
}
