//go:build infra

package stacks_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"agentplatform/infra/stage"
	"agentplatform/internal/api/httpapi"
)

// The requirements on incoming requests: they come only through the distribution, to the gateway or to the streams'
// load balancer.

var frontRequirements = []requirement{
	{"CloudFront, and nobody else, reaches the balancer", func(all templates) (wrong []string) {
		rules := 0
		for id, p := range all.of("AWS::EC2::SecurityGroup") {
			if ingress := text(p["SecurityGroupIngress"]); strings.HasPrefix(id, "Balancer") && ingress != "null" {
				rules++
				if !strings.Contains(ingress, `"SourcePrefixListId":"pl-0123456"`) ||
					strings.Contains(ingress, "Cidr") {
					wrong = append(wrong, id+" lets in "+ingress)
				}
			}
		}
		for id, p := range all.of("AWS::EC2::SecurityGroupIngress") {
			if !strings.HasPrefix(id, "Balancer") {
				continue
			}
			rules++
			if p["SourcePrefixListId"] != "pl-0123456" || p["FromPort"] != 80.0 {
				wrong = append(wrong, id+" lets in "+text(p))
			}
		}
		if rules != 1 {
			wrong = append(wrong, fmt.Sprint(rules, " rules let the balancer be reached"))
		}
		return wrong
	}, func(all templates) {
		for id, p := range all.of("AWS::EC2::SecurityGroupIngress") {
			if strings.HasPrefix(id, "Balancer") {
				delete(p, "SourcePrefixListId")
				p["CidrIp"] = "10.0.0.0/16"
			}
		}
		for id, p := range all.of("AWS::EC2::SecurityGroup") {
			if strings.HasPrefix(id, "Balancer") {
				p["SecurityGroupIngress"] = []any{properties{"CidrIp": "10.0.0.0/16"}}
			}
		}
	}},
	{"the network lies in the zones that CloudFront reaches", func(all templates) (wrong []string) {
		for id, p := range all.of("AWS::EC2::Subnet") {
			if zone := p["AvailabilityZone"]; zone != "eu-central-1a" && zone != "eu-central-1b" {
				wrong = append(wrong, id+" is in "+text(zone))
			}
		}
		return wrong
	}, func(all templates) {
		all.the("AWS::EC2::Subnet", "Network")["AvailabilityZone"] = properties{"Fn::Select": []any{0}}
	}},
	{"nothing in the network can be reached from outside, and there is no NAT", func(all templates) (wrong []string) {
		for id, b := range all.of("AWS::ElasticLoadBalancingV2::LoadBalancer") {
			if b["Scheme"] != "internal" {
				wrong = append(wrong, id+" is public")
			}
		}
		for _, kind := range []string{"AWS::EC2::NatGateway", "AWS::EC2::EIP"} {
			for id := range all.of(kind) {
				wrong = append(wrong, id)
			}
		}
		for kind, member := range map[string]string{"AWS::EC2::SecurityGroup": "SecurityGroupIngress",
			"AWS::EC2::SecurityGroupIngress": "CidrIp"} {
			for id, p := range all.of(kind) {
				if strings.Contains(text(p[member]), "0.0.0.0/0") {
					wrong = append(wrong, id+" lets everybody in")
				}
			}
		}
		return wrong
	}, func(all templates) {
		all.the("AWS::ElasticLoadBalancingV2::LoadBalancer", "Balancer")["Scheme"] = "internet-facing"
	}},
	{"the gateway is called by the distribution alone", func(all templates) (wrong []string) {
		for id, m := range all.of("AWS::ApiGateway::Method") {
			if m["ApiKeyRequired"] != true {
				wrong = append(wrong, id+" is open to everybody")
			}
		}
		key := text(all.the("AWS::ApiGateway::ApiKey", "Gateway")["Value"])
		origins := list(object(all.the("AWS::CloudFront::Distribution", "Front")["DistributionConfig"])["Origins"])
		shown := 0
		for _, o := range origins {
			origin := object(o)
			if origin["VpcOriginConfig"] != nil {
				continue
			}
			for _, h := range list(origin["OriginCustomHeaders"]) {
				if object(h)["HeaderName"] == "X-Api-Key" && text(object(h)["HeaderValue"]) == key {
					shown++
				}
			}
		}
		if shown != 2 || !strings.Contains(key, "resolve:secretsmanager:") {
			wrong = append(wrong, fmt.Sprint(shown, " origins show the key ", key))
		}
		return wrong
	}, func(all templates) { delete(all.the("AWS::ApiGateway::Method", "Gatewayv1chatPOST"), "ApiKeyRequired") }},
	{"the address that is refused is the client's own", func(all templates) (wrong []string) {
		acl := all.the("AWS::WAFv2::WebACL", "WebAcl")
		rules := text(acl["Rules"])
		if acl["Scope"] != "CLOUDFRONT" || !strings.Contains(rules, `"AggregateKeyType":"IP"`) ||
			!strings.Contains(rules, `"Block"`) {
			wrong = append(wrong, rules)
		}
		front := all.the("AWS::CloudFront::Distribution", "Front")
		if object(front["DistributionConfig"])["WebACLId"] == nil {
			wrong = append(wrong, "the distribution has no web ACL")
		}
		return wrong
	}, func(all templates) { all.the("AWS::WAFv2::WebACL", "WebAcl")["Scope"] = "REGIONAL" }},
	{"what may stream does so by the function chat, and nothing else", func(all templates) (wrong []string) {
		streaming := map[any]int{}
		for id, m := range all.of("AWS::ApiGateway::Method") {
			integration := object(m["Integration"])
			if integration["ResponseTransferMode"] != "STREAM" {
				continue
			}
			streaming[m["HttpMethod"]]++
			if !strings.Contains(text(integration["Uri"]), "/response-streaming-invocations") ||
				!strings.Contains(text(integration["Uri"]), "ChatLive") {
				wrong = append(wrong, id)
			}
		}
		// POST: messages, MCP, A2A, AG-UI, responses; GET: a response
		if !maps.Equal(streaming, map[any]int{"POST": 5, "GET": 1}) {
			wrong = append(wrong, fmt.Sprint("these stream: ", streaming))
		}
		return wrong
	}, func(all templates) {
		for _, m := range all.of("AWS::ApiGateway::Method") {
			delete(object(m["Integration"]), "ResponseTransferMode")
		}
	}},
	{"forms reach the functions unharmed", func(all templates) (wrong []string) {
		kinds := several(all.the("AWS::ApiGateway::RestApi", "Gateway")["BinaryMediaTypes"])
		if !slices.Contains(kinds, "multipart/form-data") || slices.Contains(kinds, "*/*") {
			wrong = append(wrong, fmt.Sprint(kinds))
		}
		return wrong
	}, func(all templates) { delete(all.the("AWS::ApiGateway::RestApi", "Gateway"), "BinaryMediaTypes") }},
	{"what is outside of the API for clients is read from its stage", func(all templates) (wrong []string) {
		config := object(all.the("AWS::CloudFront::Distribution", "Front")["DistributionConfig"])
		below := map[any]bool{} // origins in the stage
		for _, origin := range list(config["Origins"]) {
			if object(origin)["OriginPath"] == "/api" {
				below[object(origin)["Id"]] = true
			}
		}
		left := []string{"/docs*", "/admin*", "/admin/assets/*", "/healthz"}
		for _, b := range list(config["CacheBehaviors"]) {
			path := fmt.Sprint(object(b)["PathPattern"])
			if at := slices.Index(left, path); at >= 0 && below[object(b)["TargetOriginId"]] {
				left = slices.Delete(left, at, at+1)
			}
		}
		return left
	}, func(all templates) {
		config := object(all.the("AWS::CloudFront::Distribution", "Front")["DistributionConfig"])
		config["CacheBehaviors"] = slices.DeleteFunc(list(config["CacheBehaviors"]), func(b any) bool {
			return object(b)["PathPattern"] == "/healthz"
		})
	}},
	{"files of the panel are kept by the distribution, and compressed there", func(all templates) (wrong []string) {
		config := object(all.the("AWS::CloudFront::Distribution", "Front")["DistributionConfig"])
		var paths []string
		for _, b := range list(config["CacheBehaviors"]) {
			paths = append(paths, fmt.Sprint(object(b)["PathPattern"]))
			if object(b)["PathPattern"] == "/admin/assets/*" && object(b)["Compress"] != true {
				wrong = append(wrong, "files are not compressed")
			}
		}
		files, page := slices.Index(paths, "/admin/assets/*"), slices.Index(paths, "/admin*")
		if files < 0 || page < files {
			wrong = append(wrong, "the page's behaviour comes before that of its files")
		}
		return wrong
	}, func(all templates) {
		config := object(all.the("AWS::CloudFront::Distribution", "Front")["DistributionConfig"])
		slices.Reverse(list(config["CacheBehaviors"]))
	}},
	{"the load balancer closes an idle connection before the service does", func(all templates) (wrong []string) {
		service := httpapi.IdleTimeout.Seconds()
		for id, b := range all.of("AWS::ElasticLoadBalancingV2::LoadBalancer") {
			idle := 60.0 // the default
			for _, a := range list(b["LoadBalancerAttributes"]) {
				if object(a)["Key"] == "idle_timeout.timeout_seconds" {
					idle, _ = strconv.ParseFloat(fmt.Sprint(object(a)["Value"]), 64)
				}
			}
			if idle < 60 || idle >= service {
				wrong = append(wrong, fmt.Sprint(id, " keeps connections for ", idle, " s, the service for ", service))
			}
		}
		return wrong
	}, func(all templates) {
		all.the("AWS::ElasticLoadBalancingV2::LoadBalancer", "Balancer")["LoadBalancerAttributes"] = []any{
			properties{"Key": "idle_timeout.timeout_seconds", "Value": "130"}}
	}},
	{"streams get more containers when there are many, and when they are busy", func(all templates) (wrong []string) {
		by := map[string]float64{}
		for id, p := range all.of("AWS::ApplicationAutoScaling::ScalingPolicy") {
			if !strings.HasPrefix(id, "Stream") {
				continue
			}
			target := object(p["TargetTrackingScalingPolicyConfiguration"])
			name := fmt.Sprint(object(target["CustomizedMetricSpecification"])["MetricName"],
				object(target["PredefinedMetricSpecification"])["PredefinedMetricType"])
			by[name] = number(target["TargetValue"])
		}
		want := map[string]float64{"OpenStreams<nil>": 1000, "<nil>ECSServiceAverageCPUUtilization": 60}
		if !maps.Equal(by, want) {
			wrong = append(wrong, fmt.Sprint(by))
		}
		task := all.the("AWS::ECS::TaskDefinition", "StreamTask")
		if task["Cpu"] != "512" { // 1,000 busy streams take 0.4 of a CPU
			wrong = append(wrong, fmt.Sprint("a container has ", task["Cpu"], " units"))
		}
		return wrong
	}, func(all templates) {
		for id, p := range all.of("AWS::ApplicationAutoScaling::ScalingPolicy") {
			if strings.HasPrefix(id, "Stream") {
				delete(object(p["TargetTrackingScalingPolicyConfiguration"]), "PredefinedMetricSpecification")
			}
		}
	}},
	{"all clients together may ask as often as the stage says", func(all templates) (wrong []string) {
		prod, err := stage.Named("prod", "someone@example.com")
		if err != nil {
			return []string{err.Error()}
		}
		limits := list(all.the("AWS::ApiGateway::Stage", "Gateway")["MethodSettings"])
		if len(limits) != 1 {
			return []string{fmt.Sprint(len(limits), " limits")}
		}
		limit := object(limits[0])
		if limit["HttpMethod"] != "*" || limit["ResourcePath"] != "/*" ||
			number(limit["ThrottlingRateLimit"]) != float64(prod.Rate) ||
			number(limit["ThrottlingBurstLimit"]) != float64(prod.Burst) {
			wrong = append(wrong, text(limit))
		}
		return wrong
	}, func(all templates) {
		limits := list(all.the("AWS::ApiGateway::Stage", "Gateway")["MethodSettings"])
		object(limits[0])["ThrottlingRateLimit"] = 2000.0
	}},
	{"a stage's own domain is the distribution's, and what links name", func(all templates) (wrong []string) {
		config := object(all.the("AWS::CloudFront::Distribution", "Front")["DistributionConfig"])
		if !slices.Equal(several(config["Aliases"]), []string{"agents.example.com"}) ||
			!strings.Contains(text(config["ViewerCertificate"]), "arn:aws:acm:us-east-1:") {
			wrong = append(wrong, "the distribution has "+text(config["Aliases"])+text(config["ViewerCertificate"]))
		}
		for _, prefix := range []string{"ApiFunction", "ChatFunction", "WorkerFunction"} {
			variables := object(object(all.the("AWS::Lambda::Function", prefix)["Environment"])["Variables"])
			if variables["PUBLIC_URL"] != "https://agents.example.com" {
				wrong = append(wrong, prefix+" names "+text(variables["PUBLIC_URL"]))
			}
		}
		return wrong
	}, func(all templates) {
		delete(object(all.the("AWS::CloudFront::Distribution", "Front")["DistributionConfig"]), "Aliases")
	}},
}
