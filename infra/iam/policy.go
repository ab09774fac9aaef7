package iam

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// document is a policy, with the name of the resource that has it.
type document struct {
	at         string
	statements []statement
}

type statement struct {
	allow                bool
	notAction, notTarget bool // the patterns are those of NotAction and NotResource
	actions, targets     []string
	principals           []string // of a policy of a resource: ARNs, "*", or services
	conditions           []condition
}

// condition is one line of a condition: an operator, a key and the values that it is compared with.
type condition struct {
	operator, key string
	values        []string
}

// ofAWS has the policies that AWS manages, by the end of their ARNs.
// https://docs.aws.amazon.com/aws-managed-policy/latest/reference/policy-list.html
var ofAWS = map[string][]string{
	"policy/service-role/AWSLambdaBasicExecutionRole": {"logs:CreateLogGroup", "logs:CreateLogStream",
		"logs:PutLogEvents"},
	"policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs": {"logs:CreateLogGroup", "logs:CreateLogStream",
		"logs:DescribeLogGroups", "logs:DescribeLogStreams", "logs:PutLogEvents", "logs:GetLogEvents",
		"logs:FilterLogEvents"},
}

// policyMembers has the properties in which resources have policies. If a resource has one and readPolicies does not
// know its type, that is an error.
var policyMembers = []string{"PolicyDocument", "ResourcePolicy", "KeyPolicy", "RepositoryPolicyText",
	"PermissionsBoundary", "ManagedPolicyArns", "Policies", "Policy"}

func (s *Stacks) readPolicies() error {
	err := s.each(func(_, id string, r resource) error {
		if r.Type == "AWS::IAM::Role" {
			s.policies[s.names[id]] = []document{}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.each(s.readPolicy)
}

func (s *Stacks) readPolicy(stack, id string, r resource) error {
	known, err := true, error(nil)
	switch r.Type {
	case "AWS::IAM::Role":
		err = s.readRole(stack, id, r.Properties)
	case "AWS::IAM::Policy":
		err = s.attach(stack, id, r.Properties)
	case "AWS::S3::BucketPolicy", "AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy":
		err = s.share(stack, id, r.Properties["PolicyDocument"], "")
	case "AWS::KMS::Key":
		var own string
		if own, err = s.attribute(stack, id, "Arn", 0); err == nil {
			err = s.share(stack, id, r.Properties["KeyPolicy"], own)
		}
	case "AWS::Lambda::Permission":
		err = s.permission(stack, r.Properties)
	default:
		known = !hasPolicy(r.Properties)
	}
	if !known {
		return fmt.Errorf("iam: the policy of %s, a %s, is not known: add it to infra/iam/policy.go", id, r.Type)
	}
	if err != nil {
		return fmt.Errorf("iam: %s: %w", id, err)
	}
	return nil
}

// hasPolicy reports whether there is a policy anywhere in a value.
func hasPolicy(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, hasPolicy)
	case map[string]any:
		for member, value := range v {
			if slices.Contains(policyMembers, member) || hasPolicy(value) {
				return true
			}
		}
	}
	return false
}

// readRole reads a role's own policies.
func (s *Stacks) readRole(stack, id string, properties map[string]any) error {
	if properties["PermissionsBoundary"] != nil {
		return errors.New("a boundary of permissions is not known")
	}
	name := s.names[id]
	managed, err := s.texts(stack, properties["ManagedPolicyArns"])
	if err != nil {
		return err
	}
	for _, arn := range managed {
		_, policy, _ := strings.Cut(arn, "::aws:")
		actions, known := ofAWS[policy]
		if !known {
			s.unread[name] = arn
			continue
		}
		s.policies[name] = append(s.policies[name], document{name,
			[]statement{{allow: true, actions: actions, targets: []string{"*"}}}})
	}
	inline, _ := properties["Policies"].([]any)
	for _, p := range inline {
		one, _ := p.(map[string]any)
		d, err := s.document(stack, name, one["PolicyDocument"], "")
		if err != nil {
			return err
		}
		s.policies[name] = append(s.policies[name], d)
	}
	return nil
}

// attach reads a policy that names its roles.
func (s *Stacks) attach(stack, id string, properties map[string]any) error {
	roles, err := s.texts(stack, properties["Roles"])
	if err != nil {
		return err
	}
	d, err := s.document(stack, s.names[id], properties["PolicyDocument"], "")
	if err != nil {
		return err
	}
	for _, role := range roles {
		if s.policies[role] == nil {
			return fmt.Errorf("there is no role %s", role)
		}
		s.policies[role] = append(s.policies[role], d)
	}
	return nil
}

// share reads the policy of a resource. There "*" stands for the ARN own.
func (s *Stacks) share(stack, id string, v any, own string) error {
	d, err := s.document(stack, s.names[id], v, own)
	s.shared = append(s.shared, d)
	return err
}

// permission reads a function's own policy, which may only let services of AWS invoke it.
func (s *Stacks) permission(stack string, properties map[string]any) error {
	who, err := s.text(stack, properties["Principal"])
	if err != nil {
		return err
	}
	if !strings.HasSuffix(who, ".amazonaws.com") {
		return fmt.Errorf("a permission for %q is not known", who)
	}
	return nil
}

// texts returns a string or a list of strings as a list. It is empty if there is nothing.
func (s *Stacks) texts(stack string, v any) ([]string, error) {
	if v == nil {
		return nil, nil
	}
	r, err := s.resolved(stack, v, 0)
	if err != nil {
		return nil, err
	}
	if one, is := r.(string); is {
		return []string{one}, nil
	}
	list, all := texts(r)
	if !all {
		return nil, fmt.Errorf("%v is no list of texts", v)
	}
	return list, nil
}

func (s *Stacks) document(stack, at string, v any, own string) (document, error) {
	d := document{at: at}
	members, _ := v.(map[string]any)
	statements, isList := members["Statement"].([]any)
	if !isList || members["Version"] != "2012-10-17" {
		return d, fmt.Errorf("%v is no policy of the version that is known", v)
	}
	for _, one := range statements {
		members, _ := one.(map[string]any)
		st, err := s.statement(stack, members, own)
		if err != nil {
			return d, err
		}
		d.statements = append(d.statements, st)
	}
	return d, nil
}

func (s *Stacks) statement(stack string, members map[string]any, own string) (st statement, err error) {
	var failures []error
	read := func(member string) []string {
		list, err := s.texts(stack, members[member])
		failures = append(failures, err)
		return list
	}
	for member, v := range members {
		switch member {
		case "Sid":
		case "Effect":
			if st.allow = v == "Allow"; !st.allow && v != "Deny" {
				return st, fmt.Errorf("the effect %v is not known", v)
			}
		case "Action":
			st.actions = read(member)
		case "NotAction":
			st.notAction, st.actions = true, read(member)
		case "Resource":
			st.targets = read(member)
			if own != "" {
				for i, t := range st.targets {
					if t == "*" {
						st.targets[i] = own
					}
				}
			}
		case "NotResource":
			st.notTarget, st.targets = true, read(member)
		case "Principal":
			if st.principals, err = s.principals(stack, v); err != nil {
				return st, err
			}
		case "Condition":
			if st.conditions, err = s.conditions(stack, v); err != nil {
				return st, err
			}
		default:
			return st, fmt.Errorf("the member %s of a statement is not known", member)
		}
	}
	if members["Effect"] == nil || len(st.actions) == 0 || len(st.targets) == 0 {
		failures = append(failures, errors.New("a statement without Effect, Action or Resource"))
	}
	for _, text := range slices.Concat(st.actions, st.targets) {
		if strings.Contains(text, "${") {
			failures = append(failures, fmt.Errorf("the variable in %s is not known", text))
		}
	}
	return st, errors.Join(failures...)
}

func (s *Stacks) principals(stack string, v any) (list []string, err error) {
	if v == "*" {
		return []string{"*"}, nil
	}
	members, _ := v.(map[string]any)
	for kind, who := range members {
		if kind != "AWS" && kind != "Service" {
			return nil, fmt.Errorf("the principal %s is not known", kind)
		}
		names, err := s.texts(stack, who)
		if err != nil {
			return nil, err
		}
		list = append(list, names...)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the principal %v is not known", v)
	}
	return list, nil
}

// operators compare the values of a key in a call with those of a condition. Only ForAllValues is true for a key that a
// call does not have. See "Single-valued vs. multivalued context keys" in the user guide of IAM.
var operators = map[string]func(has, wanted []string) bool{
	"StringEquals": func(has, wanted []string) bool { return len(has) == 1 && slices.Contains(wanted, has[0]) },
	"StringLike":   func(has, wanted []string) bool { return len(has) == 1 && anyLike(wanted, has[0]) },
	"Bool": func(has, wanted []string) bool {
		return len(has) == 1 && slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, has[0]) })
	},
	"ForAllValues:StringEquals": func(has, wanted []string) bool {
		return !slices.ContainsFunc(has, func(h string) bool { return !slices.Contains(wanted, h) })
	},
}

func anyLike(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return like(p, text) })
}

// keys has the known condition keys, by the beginning of their names in lower case. They are those that Decode returns,
// one that a Guard adds, and one that only calls of AWS's own services have.
var keys = []string{"kms:encryptioncontextkeys", "kms:encryptioncontext:", "aws:securetransport", "aws:sourceaccount"}

func (s *Stacks) conditions(stack string, v any) (list []condition, err error) {
	all, _ := v.(map[string]any)
	for operator, lines := range all {
		if operators[operator] == nil {
			return nil, fmt.Errorf("the operator %s is not known", operator)
		}
		members, _ := lines.(map[string]any)
		for key, value := range members {
			key = strings.ToLower(key)
			if !slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(key, k) }) {
				return nil, fmt.Errorf("the condition key %s is not known", key)
			}
			values, err := s.texts(stack, value)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(values, func(t string) bool { return strings.Contains(t, "${") }) {
				return nil, fmt.Errorf("the variable in %v is not known", values)
			}
			list = append(list, condition{operator, key, values})
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the condition %v is not known", v)
	}
	return list, nil
}
