package iam

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Stacks are synthesized templates that belong together. The name of a resource here is its logical ID. If it stays
// unique among its type, the name lacks the digits at the end: "Core" for CoreC65142A7.
type Stacks struct {
	region, account string
	stacks          map[string]*template
	exports         map[string]export
	names           map[string]string     // by logical ID
	policies        map[string][]document // of roles, by their logical ID
	shared          []document            // of keys, buckets, queues, …
	unread          map[string]string     // the ARNs of policies of AWS that are not known, by the roles that have them
}

type template struct {
	Resources map[string]resource
	Outputs   map[string]struct {
		Value  any
		Export struct{ Name any }
	}
}

type resource struct {
	Type       string
	Properties map[string]any
}

// export is a value of another stack.
type export struct {
	stack string
	value any
}

// Read reads templates, by the names of their stacks, as they would be deployed to a Region of an account. It fails for
// anything that is not a template. It fails for a policy, or a part of a policy, that it does not know.
func Read(templates map[string][]byte, region, account string) (*Stacks, error) {
	s := &Stacks{region: region, account: account, stacks: map[string]*template{}, exports: map[string]export{},
		names: map[string]string{}, policies: map[string][]document{}, unread: map[string]string{}}
	for name, raw := range templates {
		t := &template{}
		if err := json.Unmarshal(raw, t); err != nil {
			return nil, fmt.Errorf("iam: the template %s: %w", name, err)
		}
		s.stacks[name] = t
		for _, o := range t.Outputs {
			if exported, is := o.Export.Name.(string); is {
				s.exports[exported] = export{name, o.Value}
			}
		}
	}
	if err := s.name(); err != nil {
		return nil, err
	}
	return s, s.readPolicies()
}

// digits matches the suffix that the CDK adds to a logical ID.
var digits = regexp.MustCompile(`[0-9A-F]{8}$`)

func (s *Stacks) name() error {
	owners, seen := map[string][]string{}, map[string]bool{}
	for _, t := range s.stacks {
		for id, r := range t.Resources {
			if seen[id] {
				return fmt.Errorf("iam: two stacks have a resource %s", id)
			}
			seen[id] = true
			short := r.Type + " " + digits.ReplaceAllString(id, "")
			owners[short] = append(owners[short], id)
		}
	}
	for short, ids := range owners {
		for _, id := range ids {
			if s.names[id] = id; len(ids) == 1 {
				_, s.names[id], _ = strings.Cut(short, " ")
			}
		}
	}
	return nil
}

// Name returns the name of a resource here, by its logical ID. It is empty if there is no such resource.
func (s *Stacks) Name(id string) string { return s.names[id] }

// Output returns the value of a stack's output, a string.
func (s *Stacks) Output(stack, name string) (string, error) {
	t := s.stacks[stack]
	if t == nil {
		return "", fmt.Errorf("iam: there is no stack %s", stack)
	}
	return s.text(stack, t.Outputs[name].Value)
}

// Program is a function or a container with its role.
type Program struct{ Name, Role string }

// roleOf has the property in which each type of program has its role.
var roleOf = map[string]string{"AWS::Lambda::Function": "Role", "AWS::ECS::TaskDefinition": "TaskRoleArn"}

// Programs returns the programs of the stacks, by their names. It fails if a program's role has no policy in the
// stacks, or has an unknown policy of AWS. (The role of another resource may have one. AWS decides what its own
// services need.)
func (s *Stacks) Programs() (programs []Program, err error) {
	for stack, t := range s.stacks {
		for id, r := range t.Resources {
			property := roleOf[r.Type]
			if property == "" {
				continue
			}
			arn, err := s.text(stack, r.Properties[property])
			if err != nil {
				return nil, fmt.Errorf("iam: the role of %s: %w", id, err)
			}
			role := lastPart(arn)
			if len(s.policies[role]) == 0 || s.unread[role] != "" {
				return nil, fmt.Errorf("iam: the role %s of %s has no policy, or one that is not known: %q", arn, id,
					s.unread[role])
			}
			programs = append(programs, Program{s.names[id], role})
		}
	}
	slices.SortFunc(programs, func(a, b Program) int { return strings.Compare(a.Name, b.Name) })
	return programs, nil
}

// shapes has the values of references to a resource and to its attributes, by type. In them <> is the resource's name,
// <Property> one of its properties, and @ its Region and its account.
var shapes = map[string]map[string]string{
	"AWS::DynamoDB::GlobalTable":       {"Ref": "<>", "Arn": "arn:aws:dynamodb:@:table/<>"},
	"AWS::S3::Bucket":                  {"Ref": "<>", "Arn": "arn:aws:s3:::<>"},
	"AWS::S3Vectors::VectorBucket":     {"Ref": "<VectorBucketName>"},
	"AWS::SQS::Queue":                  {"Arn": "arn:aws:sqs:@:<>"},
	"AWS::KMS::Key":                    {"Ref": "<>", "Arn": "arn:aws:kms:@:key/<>"},
	"AWS::SecretsManager::Secret":      {"Ref": "arn:aws:secretsmanager:@:secret:<>"},
	"AWS::StepFunctions::StateMachine": {"Ref": "arn:aws:states:@:stateMachine:<>", "Name": "<>"},
	"AWS::Lambda::Function":            {"Ref": "<>", "Arn": "arn:aws:lambda:@:function:<>"},
	"AWS::Lambda::Alias":               {"Ref": "arn:aws:lambda:@:function:<FunctionName>:<Name>"},
	"AWS::Logs::LogGroup":              {"Arn": "arn:aws:logs:@:log-group:<>:*"},
	"AWS::ECR::Repository":             {"Arn": "arn:aws:ecr:@:repository/<>"},
	"AWS::SNS::Topic":                  {"Ref": "arn:aws:sns:@:<>"},
	"AWS::Events::Rule":                {"Arn": "arn:aws:events:@:rule/<>"},
	"AWS::IAM::Role":                   {"Ref": "<>", "Arn": "arn:aws:iam::<role>:role/<>"},
}

var placeholder = regexp.MustCompile(`<\w*>|@`)

// attribute returns the value of a reference: "Ref", or the name of an attribute.
func (s *Stacks) attribute(stack, id, name string, depth int) (string, error) {
	r, there := s.stacks[stack].Resources[id]
	shape := shapes[r.Type][name]
	if !there || shape == "" {
		return "", fmt.Errorf("iam: %s of %s (%q) is not known: add it to infra/iam/template.go", name, id, r.Type)
	}
	var failure error
	text := placeholder.ReplaceAllStringFunc(shape, func(hole string) string {
		switch hole {
		case "<>":
			return s.names[id]
		case "@":
			return s.region + ":" + s.account
		case "<role>": // roles are of no Region
			return s.account
		}
		v, err := s.resolved(stack, r.Properties[strings.Trim(hole, "<>")], depth)
		part, is := v.(string)
		if err != nil || !is {
			failure = fmt.Errorf("iam: %s of %s: %w", hole, id, err)
		}
		return part
	})
	return text, failure
}

func (s *Stacks) text(stack string, v any) (string, error) {
	found, err := s.resolved(stack, v, 0)
	if err != nil {
		return "", err
	}
	if text, is := found.(string); is {
		return text, nil
	}
	return "", fmt.Errorf("iam: %v is no text", v)
}

// deepest is the largest depth of nested functions. More is a circle.
const deepest = 100

// resolved returns a value with its functions evaluated: a string, or a list of strings.
func (s *Stacks) resolved(stack string, v any, depth int) (any, error) {
	if depth++; depth > deepest {
		return nil, fmt.Errorf("iam: functions in %s are in each other more than %d deep", stack, deepest)
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case []any:
		list := []any{}
		for _, one := range v {
			r, err := s.resolved(stack, one, depth)
			if err != nil {
				return nil, err
			}
			list = append(list, r)
		}
		return list, nil
	case map[string]any:
		if len(v) == 1 {
			for function, argument := range v {
				return s.function(stack, function, argument, depth)
			}
		}
	}
	return nil, fmt.Errorf("iam: %v is no value of a template that is known", v)
}

func (s *Stacks) function(stack, function string, argument any, depth int) (any, error) {
	wrong := fmt.Errorf("iam: %s of %v is not known", function, argument)
	switch function {
	case "Ref":
		id, is := argument.(string)
		if !is {
			return nil, wrong
		}
		return s.reference(stack, id, depth)
	case "Fn::Sub":
		text, is := argument.(string)
		if !is {
			return nil, wrong
		}
		return s.substituted(stack, text, depth)
	case "Fn::GetAtt":
		if of, is := argument.([]any); is && len(of) == 2 {
			id, isID := of[0].(string)
			name, isName := of[1].(string)
			if isID && isName {
				return s.attribute(stack, id, name, depth)
			}
		}
		return nil, wrong
	case "Fn::Select":
		of, _ := argument.([]any)
		if len(of) != 2 {
			return nil, wrong
		}
		at, isNumber := of[0].(float64)
		list, err := s.resolved(stack, of[1], depth)
		parts, all := texts(list)
		if err != nil || !isNumber || !all || at < 0 || int(at) >= len(parts) {
			return nil, errors.Join(wrong, err)
		}
		return parts[int(at)], nil
	}
	resolved, err := s.resolved(stack, argument, depth)
	if err != nil {
		return nil, err
	}
	if function == "Fn::ImportValue" {
		name, _ := resolved.(string)
		from, there := s.exports[name]
		if !there {
			return nil, fmt.Errorf("iam: nothing exports %v", resolved)
		}
		return s.resolved(from.stack, from.value, depth)
	}
	pair, _ := resolved.([]any)
	if len(pair) != 2 {
		return nil, wrong
	}
	switch function {
	case "Fn::Join":
		between, isText := pair[0].(string)
		parts, areTexts := texts(pair[1])
		if isText && areTexts {
			return strings.Join(parts, between), nil
		}
	case "Fn::Split":
		between, isText := pair[0].(string)
		text, isToo := pair[1].(string)
		if isText && isToo {
			list := []any{}
			for _, part := range strings.Split(text, between) {
				list = append(list, part)
			}
			return list, nil
		}
	}
	return nil, wrong
}

// texts returns the strings of a list, and whether all of its elements are strings.
func texts(v any) (list []string, all bool) {
	parts, is := v.([]any)
	for _, p := range parts {
		text, isText := p.(string)
		is = is && isText
		list = append(list, text)
	}
	return list, is
}

func (s *Stacks) reference(stack, id string, depth int) (string, error) {
	if value, pseudo := map[string]string{
		"AWS::Partition": "aws", "AWS::URLSuffix": "amazonaws.com", "AWS::Region": s.region,
		"AWS::AccountId": s.account, "AWS::StackName": stack,
		"AWS::StackId": "arn:aws:cloudformation:" + s.region + ":" + s.account + ":stack/" + stack + "/" + stack,
	}[id]; pseudo {
		return value, nil
	}
	return s.attribute(stack, id, "Ref", depth)
}

var inText = regexp.MustCompile(`\$\{([^}]*)\}`)

func (s *Stacks) substituted(stack, text string, depth int) (string, error) {
	var failure error
	done := inText.ReplaceAllStringFunc(text, func(hole string) string {
		id, attribute, isAttribute := strings.Cut(hole[2:len(hole)-1], ".")
		var value string
		var err error
		if isAttribute {
			value, err = s.attribute(stack, id, attribute, depth)
		} else {
			value, err = s.reference(stack, id, depth)
		}
		if err != nil {
			failure = err
		}
		return value
	})
	return done, failure
}

// each calls f for all resources in the order of their stacks and IDs, until f fails.
func (s *Stacks) each(f func(stack, id string, r resource) error) error {
	for _, stack := range slices.Sorted(maps.Keys(s.stacks)) {
		resources := s.stacks[stack].Resources
		for _, id := range slices.Sorted(maps.Keys(resources)) {
			if err := f(stack, id, resources[id]); err != nil {
				return err
			}
		}
	}
	return nil
}
