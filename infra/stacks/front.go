package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscertificatemanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudfront"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudfrontorigins"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awselasticloadbalancingv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"agentplatform/internal/wiring/cloud"
)

const streamPort = 8080

// streamsATask is the number of open streams per task at which more tasks start.
const streamsATask = 1000

// distribution makes the service's only domain. Everything goes to API Gateway, except streams of runs, which go to
// their service. It is made before the functions, whose environment has its name. So it must not depend on them.
func (v *service) distribution() {
	v.network()
	none := awscloudfront.CachePolicy_CACHING_DISABLED()
	all := awscloudfront.OriginRequestPolicy_ALL_VIEWER_EXCEPT_HOST_HEADER()
	// Clients find the documentation, the panel and /healthz outside /api; API Gateway has them in the stage api.
	pages := v.gateway(jsii.String("/api"))
	streams := awscloudfrontorigins.VpcOrigin_WithApplicationLoadBalancer(v.balancer,
		&awscloudfrontorigins.VpcOriginWithEndpointProps{
			ProtocolPolicy: awscloudfront.OriginProtocolPolicy_HTTP_ONLY, HttpPort: jsii.Number(80),
			ReadTimeout: seconds(60),
		})
	behaviour := func(origin awscloudfront.IOrigin,
		methods awscloudfront.AllowedMethods) *awscloudfront.BehaviorOptions {
		return &awscloudfront.BehaviorOptions{
			Origin: origin, AllowedMethods: methods, CachePolicy: none, OriginRequestPolicy: all,
			Compress:             jsii.Bool(false),
			ViewerProtocolPolicy: awscloudfront.ViewerProtocolPolicy_HTTPS_ONLY,
		}
	}
	every, reads := awscloudfront.AllowedMethods_ALLOW_ALL(), awscloudfront.AllowedMethods_ALLOW_GET_HEAD_OPTIONS()
	properties := &awscloudfront.DistributionProps{
		Comment: jsii.String("agents " + v.stage.Name), DefaultBehavior: behaviour(v.gateway(nil), every),
		AdditionalBehaviors: &map[string]*awscloudfront.BehaviorOptions{
			"/api/v1/runs/*/stream": behaviour(streams, reads), "/api/v1/interrupts": behaviour(streams, reads),
			"/docs*": behaviour(pages, reads), "/healthz": behaviour(pages, reads),
		},
		HttpVersion: awscloudfront.HttpVersion_HTTP2_AND_3, PriceClass: awscloudfront.PriceClass_PRICE_CLASS_100,
		MinimumProtocolVersion: awscloudfront.SecurityPolicyProtocol_TLS_V1_2_2021,
	}
	if v.stage.Domain != "" {
		properties.DomainNames = jsii.Strings(v.stage.Domain)
		properties.Certificate = awscertificatemanager.Certificate_FromCertificateArn(v.stack,
			jsii.String("Certificate"), jsii.String(v.stage.Certificate))
	}
	if v.found.WebACL != "" {
		properties.WebAclId = jsii.String(v.found.WebACL)
	}
	if v.stage.AccessLogs {
		properties.EnableLogging, properties.LogIncludesCookies = jsii.Bool(true), jsii.Bool(false)
		properties.LogBucket = v.accessLogs()
	}
	v.Distribution = awscloudfront.NewDistribution(v.stack, jsii.String("Front"), properties)
	// Files of the admin panel have their contents' name in their path. The first behaviour that fits counts.
	v.Distribution.AddBehavior(jsii.String("/admin/assets/*"), pages, &awscloudfront.AddBehaviorOptions{
		AllowedMethods: reads, CachePolicy: awscloudfront.CachePolicy_CACHING_OPTIMIZED(), Compress: jsii.Bool(true),
		ViewerProtocolPolicy: awscloudfront.ViewerProtocolPolicy_HTTPS_ONLY,
	})
	v.Distribution.AddBehavior(jsii.String("/admin*"), pages, &awscloudfront.AddBehaviorOptions{
		AllowedMethods: reads, CachePolicy: none, OriginRequestPolicy: all, Compress: jsii.Bool(false),
		ViewerProtocolPolicy: awscloudfront.ViewerProtocolPolicy_HTTPS_ONLY,
	})
	output(v.stack, "BaseUrl", jsii.String("https://"+v.domain()+"/api/v1"))
	output(v.stack, "DistributionDomain", v.Distribution.DistributionDomainName())
}

// gateway returns API Gateway as an origin, below a path.
func (v *service) gateway(path *string) awscloudfront.IOrigin {
	return awscloudfrontorigins.NewHttpOrigin(awscdk.Fn_Join(jsii.String(""), &[]*string{
		v.API.RestApiId(), jsii.String(".execute-api."), v.stack.Region(), jsii.String("."), v.stack.UrlSuffix(),
	}), &awscloudfrontorigins.HttpOriginProps{
		ProtocolPolicy: awscloudfront.OriginProtocolPolicy_HTTPS_ONLY, ReadTimeout: seconds(60), OriginPath: path,
		CustomHeaders: &map[string]*string{"X-Api-Key": v.secret.UnsafeUnwrap()},
	})
}

// domain returns the domain of the service that clients use.
func (v *service) domain() string {
	if v.stage.Domain != "" {
		return v.stage.Domain
	}
	return *v.Distribution.DistributionDomainName()
}

// accessLogs makes the bucket of the distribution's logs: each request with the client's address, without cookies.
func (v *service) accessLogs() awss3.IBucket {
	return awss3.NewBucket(v.stack, jsii.String("AccessLogs"), &awss3.BucketProps{
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(), EnforceSSL: jsii.Bool(true),
		Encryption:      awss3.BucketEncryption_S3_MANAGED,
		ObjectOwnership: awss3.ObjectOwnership_OBJECT_WRITER, // CloudFront writes as itself
		RemovalPolicy:   awscdk.RemovalPolicy_RETAIN,         // CloudFormation cannot delete a bucket with objects
		LifecycleRules: &[]*awss3.LifecycleRule{{
			Expiration: awscdk.Duration_Days(jsii.Number(v.stage.LogDays))}},
	})
}

// network makes a VPC with public subnets only, so that no NAT gateway has to be paid for. Nothing in it accepts
// connections from outside. The tables and the bucket are reached through gateway endpoints.
func (v *service) network() {
	properties := &awsec2.VpcProps{
		MaxAzs: jsii.Number(2), NatGateways: jsii.Number(0),
		SubnetConfiguration: &[]*awsec2.SubnetConfiguration{{Name: jsii.String("public"),
			SubnetType: awsec2.SubnetType_PUBLIC}},
		GatewayEndpoints: &map[string]*awsec2.GatewayVpcEndpointOptions{
			"Tables":  {Service: awsec2.GatewayVpcEndpointAwsService_DYNAMODB()},
			"Objects": {Service: awsec2.GatewayVpcEndpointAwsService_S3()},
		},
		RestrictDefaultSecurityGroup: jsii.Bool(false), // that would need a function of its own; nothing uses the group
	}
	if len(v.found.Zones) > 0 { // CloudFront does not reach origins in every zone
		properties.MaxAzs, properties.AvailabilityZones = nil, jsii.Strings(v.found.Zones...)
	}
	v.vpc = awsec2.NewVpc(v.stack, jsii.String("Network"), properties)
	v.balancer = awselasticloadbalancingv2.NewApplicationLoadBalancer(v.stack, jsii.String("Balancer"),
		&awselasticloadbalancingv2.ApplicationLoadBalancerProps{
			// Heartbeats are sent every 15 s. The service keeps idle connections for longer than this, so that it never
			// closes one that the balancer is about to use.
			Vpc: v.vpc, InternetFacing: jsii.Bool(false), IdleTimeout: seconds(120),
			VpcSubnets:              &awsec2.SubnetSelection{SubnetType: awsec2.SubnetType_PUBLIC},
			DropInvalidHeaderFields: jsii.Bool(true),
		})
}

// streamService serves streams of runs for as long as they are open, on Fargate behind the internal load balancer.
func (v *service) streamService() {
	service, _ := v.run(containers{
		name: "stream", port: streamPort, memory: 1024, // 0.4 of a CPU for 1,000 busy streams
		rights: streamRights, least: v.stage.StreamTasks, most: 100,
		// Readers of an inbox hold no stream, so tasks are also added by their processor load.
		metric: cloud.OpenStreams, busy: streamsATask,
		environment: map[string]*string{
			"ADDR": jsii.String("0.0.0.0:8080"), "STREAMS": jsii.String("5000"), // of 0.1 MB each
			"KEY_STREAMS": jsii.String("2000"),
		},
	})
	listener := v.balancer.AddListener(jsii.String("Http"), &awselasticloadbalancingv2.BaseApplicationListenerProps{
		Port: jsii.Number(80), Protocol: awselasticloadbalancingv2.ApplicationProtocol_HTTP, Open: jsii.Bool(false),
	})
	v.targets = listener.AddTargets(jsii.String("Streams"), &awselasticloadbalancingv2.AddApplicationTargetsProps{
		Port: jsii.Number(streamPort), Protocol: awselasticloadbalancingv2.ApplicationProtocol_HTTP,
		Targets: &[]awselasticloadbalancingv2.IApplicationLoadBalancerTarget{service},
		HealthCheck: &awselasticloadbalancingv2.HealthCheck{Path: jsii.String("/api/v1/healthz"),
			Interval: seconds(10)},
		// A stream does not end by itself. After this time the balancer closes it. Its reader reconnects and gets the
		// current state.
		DeregistrationDelay: seconds(20),
	})
	// CloudFront reaches the balancer by network interfaces inside the VPC, but calls with its own addresses. AWS
	// manages the list of these.
	v.balancer.Connections().AllowFrom(awsec2.Peer_PrefixList(jsii.String(v.found.OriginPrefixList)),
		awsec2.Port_Tcp(jsii.Number(80)), jsii.String("CloudFront"))
}
