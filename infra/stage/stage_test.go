package stage_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/stage"
)

func draft(t *testing.T, name string) stage.Stage {
	t.Helper()
	s, err := stage.Named(name, "someone@example.com")
	require.NoError(t, err)
	return s
}

func TestShippedStagesNeedAnAddressAtMost(t *testing.T) {
	for _, name := range []string{"dev", "prod"} {
		s := draft(t, name)
		require.NoError(t, s.Validate())
	}
	_, err := stage.Named("dev", "")
	require.NoError(t, err)
	_, err = stage.Named("prod", "")
	require.ErrorContains(t, err, "AlarmEmail must be set")
	prod, err := stage.Named("prod", "someone@example.com")
	require.NoError(t, err)
	assert.Equal(t, "someone@example.com", prod.AlarmEmail)
	_, err = stage.Named("", "")
	require.ErrorContains(t, err, "dev, prod")
}

// Validators check a stage with all fields, including those that are added later.
func TestNothingIsLeftOutOfAWholeStage(t *testing.T) {
	whole := draft(t, "prod").Whole()
	require.NoError(t, whole.Validate())
	fields := reflect.ValueOf(whole)
	for i := range fields.NumField() {
		assert.False(t, fields.Field(i).IsZero(), fields.Type().Field(i).Name)
	}
}

func TestEachInvalidFieldIsNamed(t *testing.T) {
	for wantErr, spoil := range map[string]func(*stage.Stage){
		"Name":        func(s *stage.Stage) { s.Name = "Prod-1" },
		"AlarmEmail":  func(s *stage.Stage) { s.AlarmEmail = "nobody" },
		"LogDays":     func(s *stage.Stage) { s.LogDays = 8 },
		"BudgetUSD":   func(s *stage.Stage) { s.BudgetUSD = -1 },
		"Workers":     func(s *stage.Stage) { s.Workers = 1 },
		"Senders":     func(s *stage.Stage) { s.Senders = 1001 },
		"Ingesters":   func(s *stage.Stage) { s.Ingesters = 0 },
		"Jobs":        func(s *stage.Stage) { s.Jobs = 1 },
		"StreamTasks": func(s *stage.Stage) { s.StreamTasks = 0 },
		"WorkerTasks": func(s *stage.Stage) { s.WorkerTasks = -1 },
		"Rate":        func(s *stage.Stage) { s.Rate = 0 },
		"Burst":       func(s *stage.Stage) { s.Burst = 0 },
		"AddressRate": func(s *stage.Stage) { s.AddressRate = 9 },
		"WarmWrites":  func(s *stage.Stage) { s.WarmWrites = -1 },
		"WarmReads":   func(s *stage.Stage) { s.WarmReads = -1 },
		"Domain":      func(s *stage.Stage) { s.Domain, s.Certificate = "https://x", "arn:aws:acm:us-east-1:1:c" },
		"Certificate": func(s *stage.Stage) { s.Domain = "agents.example.com" },
		"us-east-1": func(s *stage.Stage) {
			s.Domain = "agents.example.com"
			s.Certificate = "arn:aws:acm:eu-central-1:123456789012:certificate/x"
		},
		"between 2 and 100000":                   func(s *stage.Stage) { s.WorkerTasks, s.Workers = 1, 200_000 },
		"Concurrency is 1000":                    func(s *stage.Stage) { s.Workers = 900 },
		"Chats":                                  func(s *stage.Stage) { s.Chats = 0 },
		"parts of Concurrency, which is not set": func(s *stage.Stage) { s.Concurrency = 0 },
	} {
		s := draft(t, "prod")
		spoil(&s)
		require.ErrorContains(t, s.Validate(), wantErr)
	}
}

// A setting that a function would refuse at its start is refused before anything is deployed.
func TestSettingsAreReadAsTheFunctionsWill(t *testing.T) {
	for wantErr, settings := range map[string]map[string]string{
		"RATE_LIMIT":                           {"RATE_LIMIT": "abc"},
		"RATE_LIMITS is no setting":            {"RATE_LIMITS": "600"},
		"OPENAI_API_KEY is a secret":           {"OPENAI_API_KEY": "sk-x"},
		"WEBHOOK_SECRET is a secret":           {"WEBHOOK_SECRET": "x"},
		"CORE_TABLE is set by the stacks":      {"CORE_TABLE": "mine"},
		"PUBLIC_URL is set by the stacks":      {"PUBLIC_URL": "https://x.example"},
		"HAND_OVER_AFTER must be between":      {"HAND_OVER_AFTER": "15m"},
		"CACHE_LIFE":                           {"CACHE_LIFE": "soon"},
		"LOG_LEVEL must be debug":              {"LOG_LEVEL": "loud"},
		"KNOWLEDGE_ALLOW_HOSTS must be a list": {"KNOWLEDGE_ALLOW_HOSTS": "host"},
		"BEDROCK_GUARDRAIL must be":            {"BEDROCK_GUARDRAIL": "no-version"},
		"BEDROCK_MODELS must be a list":        {"BEDROCK_MODELS": "amazon nova"},
		"EMBEDDING_MODELS":                     {"EMBEDDING_MODELS": "elsewhere/a"},
		"EMBEDDING_OPTIONS has":                {"EMBEDDING_OPTIONS": `{"openai/typo": {"weight": 0.5}}`},
	} {
		s := draft(t, "dev")
		s.Settings = settings
		require.ErrorContains(t, s.Validate(), wantErr)
	}
	s := draft(t, "dev")
	s.Settings = map[string]string{"RATE_LIMIT": "100", "CACHE_LIFE": "5s",
		"BEDROCK_MODELS":    "eu.amazon.nova-lite-v1:0",
		"BEDROCK_GUARDRAIL": "gr4n9abc:DRAFT"}
	assert.NoError(t, s.Validate())
}

func TestPartsOfTheConcurrencyLeaveSomethingForOthers(t *testing.T) {
	s := draft(t, "prod")
	sum := 0
	for _, n := range s.Reserved() {
		assert.Positive(t, n)
		sum += n
	}
	assert.LessOrEqual(t, sum, s.Concurrency-100)
	s.Jobs += s.Concurrency - 100 - sum
	require.NoError(t, s.Validate())
	s.Jobs++
	require.ErrorContains(t, s.Validate(), "Concurrency is 1000", "jobs are a part of it")
	s.Concurrency = 0
	assert.Nil(t, s.Reserved())
}

// An organization has half of the functions that answer POST /chat, up to the limit of the setting.
func TestAnOrganizationHasHalfOfTheChats(t *testing.T) {
	for chats, most := range map[int]int{0: 100, 1: 1, 200: 100, 401: 200, 5000: 1000} {
		assert.Equal(t, most, stage.Stage{Chats: chats}.KeyChats(), "of %d", chats)
	}
}
