// Package setting reads the settings of a deployment from the environment: once, validated, typed.
//
// It must not know the uses of the settings beyond their ranges. It imports the standard library and the parser.
package setting

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// Settings are the settings of the service. Their tags make the table of docs/settings.md. The tags low and high are
// the bounds of a value.
type Settings struct {
	Addr      string `env:"ADDR" envDefault:"127.0.0.1:8080" help:"the address to listen on"`
	DataDir   string `env:"DATA_DIR" envDefault:".data" help:"the folder for all data"`
	PublicURL string `env:"PUBLIC_URL" help:"the URL of the service for clients; by default http:// and ADDR"`

	MetricsAddr string `env:"METRICS_ADDR" help:"a second address of /metrics, without a key, for a Prometheus on another machine; none by default; on a laptop only"`

	ObserveWindow  time.Duration `env:"OBSERVE_WINDOW" envDefault:"20s" low:"0s" high:"5m" help:"how long POST /chat waits for a run to end, at most 5m"`
	ResponseWindow time.Duration `env:"RESPONSE_WINDOW" envDefault:"9m" low:"0s" high:"1h" help:"how long POST /responses waits if that is longer, with a stream slot, at most 1h; on a laptop only"`
	StartDeadline  time.Duration `env:"START_DEADLINE" envDefault:"10m" low:"1s" high:"24h" help:"a run queued for longer fails; from 1s. Time while other runs of the organization work does not count, up to one day"`
	ActiveLimit    time.Duration `env:"ACTIVE_LIMIT" envDefault:"30m" low:"1s" high:"24h" help:"active time of a run if its agent sets no limit; from 1s"`
	PauseExpiry    time.Duration `env:"PAUSE_EXPIRY" envDefault:"72h" low:"1s" high:"8760h" help:"the time after which an undecided pause is cancelled; from 1s"`
	Lease          time.Duration `env:"LEASE" envDefault:"30s" low:"1s" high:"1h" help:"how long a silent worker keeps its run; from 1s. Clocks may differ by a sixth of it"`
	Heartbeat      time.Duration `env:"HEARTBEAT" envDefault:"15s" low:"1s" high:"1m" help:"silence on a stream before a heartbeat is sent; from 1s"`

	UserCap               int  `env:"USER_CAP" envDefault:"5" low:"1" high:"1000000" help:"active runs of a user, 1 to 1000000"`
	OrganizationCap       int  `env:"ORGANIZATION_CAP" envDefault:"50" low:"1" high:"1000000" help:"active runs of an organization, 1 to 1000000"`
	PausedRuns            int  `env:"PAUSED_RUNS" envDefault:"1000" low:"1" high:"10000" help:"waiting runs of a user, and of an organization, above which new ones are refused, 1 to 10000. A user with less than 1 % of it is not refused because of others"`
	UserFiles             int  `env:"USER_FILES" envDefault:"50000" low:"1" high:"1000000000" help:"files of a user, used or not, 1 to 1000000000"`
	OrgFiles              int  `env:"ORGANIZATION_FILES" envDefault:"500000" low:"1" high:"1000000000" help:"files of an organization, 1 to 1000000000"`
	SpreadSlots           bool `env:"SPREAD_SLOTS" envDefault:"false" help:"spread the active runs of caps over 200 over 16 more partitions of DynamoDB. Set it only after all running programs know this setting"`
	RateLimit             int  `env:"RATE_LIMIT" envDefault:"600" low:"1" high:"10000000" help:"requests per minute and key, 1 to 10000000"`
	RateBurst             int  `env:"RATE_BURST" envDefault:"100" low:"1" high:"10000000" help:"burst of requests above the even rate, 1 to 10000000"`
	OrganizationRateLimit int  `env:"ORGANIZATION_RATE_LIMIT" envDefault:"0" low:"0" high:"100000000" help:"requests per minute of all keys of an organization, up to 100000000; 0: ten times those of a key"`
	OrganizationRateBurst int  `env:"ORGANIZATION_RATE_BURST" envDefault:"0" low:"0" high:"100000000" help:"burst of an organization's requests, up to 100000000; 0: ten times that of a key"`
	UserAPIKeys           int  `env:"USER_API_KEYS" envDefault:"50" low:"1" high:"1000000" help:"API keys of a user that are neither revoked nor expired, 1 to 1000000"`
	OrganizationAPIKeys   int  `env:"ORGANIZATION_API_KEYS" envDefault:"5000" low:"1" high:"1000000" help:"API keys of all users of an organization that are neither revoked nor expired, 1 to 1000000"`
	Workers               int  `env:"WORKERS" envDefault:"256" low:"1" high:"10000" help:"concurrent runs of this process, 1 to 10000. One organization may use all of them. On a laptop a further quarter is for organizations and users with few runs; below 4 there is none"`

	WebhookSecret     string   `env:"WEBHOOK_SECRET" kind:"secret" help:"signs webhooks of organizations without a secret of their own"`
	WebhookAllowHosts []string `env:"WEBHOOK_ALLOW_HOSTS" help:"private host:port pairs that webhooks may reach, comma-separated"`
	WebhookCAFile     string   `env:"WEBHOOK_CA_FILE" help:"PEM file of further certificate authorities for webhooks"`
	WebhookDays       int      `env:"WEBHOOK_RETENTION_DAYS" envDefault:"90" low:"0" high:"36500" help:"days to keep a delivery with its body after its last attempt, 0 to 36500; 0, or without an organization: as long as its run"`

	ToolAllowHosts []string `env:"TOOL_ALLOW_HOSTS" help:"private host:port pairs that toolkits may reach, comma-separated"`
	ToolCommands   []string `env:"TOOL_COMMANDS" help:"commands of MCP servers that toolkits may run, exact text, comma-separated; on a laptop only"`
	ToolCAFile     string   `env:"TOOL_CA_FILE" help:"PEM file of further certificate authorities for toolkits"`

	EmbeddingModels     []string      `env:"EMBEDDING_MODELS" help:"embedding models of knowledge bases, as provider/name or provider/name:dimensions, comma-separated; the first is the default. Empty: builtin, which compares words only"`
	EmbeddingOptions    string        `env:"EMBEDDING_OPTIONS" help:"a JSON object of options by provider/name: query_prefix and passage_prefix, added before texts, and weight, 0 to 1, of semantic ranks in hybrid searches. Known models have the prefixes of their makers"`
	KnowledgeAllowHosts []string      `env:"KNOWLEDGE_ALLOW_HOSTS" help:"private host:port pairs that documents may come from, comma-separated"`
	IngestDeadline      time.Duration `env:"INGEST_DEADLINE" envDefault:"1h" low:"1s" high:"24h" help:"the time limit of a document's ingestion; from 1s"`
	IngestWorkers       int           `env:"INGEST_WORKERS" envDefault:"4" low:"1" high:"1000" help:"concurrent ingestions of this process, 1 to 1000"`
	Ingesting           int           `env:"DOCUMENTS_IN_INGESTION" envDefault:"10000" low:"1" high:"1000000" help:"documents in ingestion of a user, and of an organization, above which new ones are refused, 1 to 1000000. A user with less than 1 % of it is not refused because of others"`
	DocumentsPerBase    int           `env:"DOCUMENTS_PER_BASE" envDefault:"10000" low:"1" high:"1000000" help:"documents of a knowledge base, 1 to 1000000"`

	Streams             int `env:"STREAMS" envDefault:"10000" low:"1" high:"1000000" help:"open streams of this process, about 0.1 MB of memory each, and the same number of waiting requests, 1 to 1000000"`
	OrganizationStreams int `env:"ORGANIZATION_STREAMS" envDefault:"0" low:"0" high:"1000000" help:"open streams of an organization, up to 1000000; 0: half of STREAMS"`
	UserStreams         int `env:"USER_STREAMS" envDefault:"0" low:"0" high:"1000000" help:"open streams of a user, up to 1000000; 0: two fifths of STREAMS"`
	KeyStreams          int `env:"KEY_STREAMS" envDefault:"0" low:"0" high:"1000000" help:"open streams of a key, up to 1000000; 0: three tenths of STREAMS"`
	KeyChats            int `env:"KEY_CHATS" envDefault:"0" low:"0" high:"1000" help:"open streams of POST /chat, MCP, A2A and AG-UI of an organization, and waits over 3 s, in all functions, up to 1000. A user may have four fifths. 0: no limit; on AWS only"`
	Connections         int `env:"CONNECTIONS" envDefault:"40000" low:"1" high:"1000000" help:"open connections of this process with a key, and the same number without, 1 to 1000000"`
	AddressConnections  int `env:"ADDRESS_CONNECTIONS" envDefault:"10000" low:"1" high:"1000000" help:"connections of an address without a key, 1 to 1000000"`

	UserFileBytes int64 `env:"USER_FILE_BYTES" envDefault:"21474836480" low:"1024" high:"1125899906842624" help:"bytes of all files of a user, including announced files; 1024 to 1125899906842624"`
	OrgFileBytes  int64 `env:"ORGANIZATION_FILE_BYTES" envDefault:"214748364800" low:"1024" high:"1125899906842624" help:"bytes of all files of an organization; 1024 to 1125899906842624"`

	MaxBody int64 `env:"MAX_BODY" envDefault:"67108864" low:"1024" high:"1073741824" help:"bytes of a request body, for JSON at most 8 MiB; 1024 to 1073741824"`

	OpenAIBaseURL    string   `env:"OPENAI_BASE_URL" help:"an endpoint for OpenAI's chat completions, with its /v1; by default OpenAI's own, if there is a key"`
	OpenAIAPIKey     string   `env:"OPENAI_API_KEY" kind:"secret" help:"its key"`
	AnthropicBaseURL string   `env:"ANTHROPIC_BASE_URL" help:"an endpoint for Anthropic's Messages API; by default Anthropic's own, if there is a key"`
	AnthropicAPIKey  string   `env:"ANTHROPIC_API_KEY" kind:"secret" help:"its key"`
	BedrockModels    []string `env:"BEDROCK_MODELS" help:"models and inference profiles of Amazon Bedrock for agents, comma-separated; needs AWS credentials"`
	BedrockRegion    string   `env:"BEDROCK_REGION" help:"the Region of Bedrock; by default that of the credentials"`
	BedrockBaseURL   string   `env:"BEDROCK_BASE_URL" help:"the endpoint of Bedrock; by default Bedrock's own"`
	BedrockGuardrail string   `env:"BEDROCK_GUARDRAIL" help:"id:version of a guardrail for every call"`

	OTLPEndpoint string   `env:"OTEL_EXPORTER_OTLP_ENDPOINT" help:"the OTLP endpoint for traces, without its /v1/traces; empty: no traces"`
	OTLPHeaders  []string `env:"OTEL_EXPORTER_OTLP_HEADERS" kind:"secret" help:"headers of trace requests as name=value, comma-separated, values percent-encoded; on a laptop only"`
	TraceShare   float64  `env:"OTEL_TRACES_SAMPLER_ARG" envDefault:"1" help:"the share of traces to send, 0 to 1"`

	LogLevel string `env:"LOG_LEVEL" envDefault:"info" help:"debug, info, warn or error"`
	Pprof    bool   `env:"PPROF" envDefault:"false" help:"serve /debug/pprof to callers on this machine with an operator key"`
}

// Cloud names the AWS resources of a deployment for its functions. The infrastructure sets all of them.
type Cloud struct {
	CoreTable    string `env:"CORE_TABLE,required,notEmpty" kind:"resource" help:"the table for all data except streams"`
	StreamTable  string `env:"FEED_TABLE,required,notEmpty" kind:"resource" help:"the table of stream frames"`
	Bucket       string `env:"BUCKET,required,notEmpty" kind:"resource" help:"the bucket of large values and files"`
	RunQueue     string `env:"RUN_QUEUE_URL,required,notEmpty" kind:"resource" help:"the queue of runs to process"`
	WebhookQueue string `env:"WEBHOOK_QUEUE_URL,required,notEmpty" kind:"resource" help:"the queue of webhooks to send"`
	JobQueue     string `env:"JOB_QUEUE_URL,required,notEmpty" kind:"resource" help:"the queue of removals, rebuilds and restores"`
	IngestQueue  string `env:"INGEST_QUEUE_URL,required,notEmpty" kind:"resource" help:"the queue of documents to ingest"`
	VectorBucket string `env:"VECTOR_BUCKET,required,notEmpty" kind:"resource" help:"the vector bucket of the index of documents"`
	SealingKey   string `env:"SEALING_KEY,required,notEmpty" kind:"resource" help:"the KMS key that encrypts organizations' secrets"`
	Secrets      string `env:"SECRETS_ARN" kind:"resource" help:"the deployment's secrets in Secrets Manager: a JSON object with WEBHOOK_SECRET"`
	Broker       string `env:"BROKER_FUNCTION" kind:"resource" help:"the function that decrypts secrets for api, which has no permission to; set only for api"`
	Reader       string `env:"READER_FUNCTION" kind:"resource" help:"the function that reads the files of messages; set only for worker"`
	PauseMachine string `env:"PAUSE_MACHINE_ARN,required,notEmpty" kind:"resource" help:"the state machine that waits for a pause's end"`

	Stage string `env:"STAGE" kind:"resource" envDefault:"none" help:"the deployment's name, a dimension of its metrics"`

	CacheLife    time.Duration `env:"CACHE_LIFE" envDefault:"30s" low:"0s" high:"5m" help:"how long keys, users, organizations and agents are cached, 0 to 5m; a revoked key works for that time"`
	ReleaseAfter time.Duration `env:"HAND_OVER_AFTER" envDefault:"13m" low:"1s" high:"14m" help:"how long a worker keeps a run, or an ingester a document, 1s to 14m; then another continues"`
}

// Kind is the source of a variable's value.
type Kind string

// The kinds: set openly by an operator; set by an operator and kept secret; set by the infrastructure.
const (
	Plain    Kind = ""
	Secret   Kind = "secret"
	Resource Kind = "resource"
)

// Names are the variables of [Settings] and [Cloud], with their kinds.
func Names() map[string]Kind {
	all := map[string]Kind{}
	for _, of := range []reflect.Type{reflect.TypeFor[Settings](), reflect.TypeFor[Cloud]()} {
		for _, f := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(f.Tag.Get("env"), ",")
			all[name] = Kind(f.Tag.Get("kind"))
		}
	}
	return all
}

// Secret is the setting of this name and of the kind [Secret], to be read or changed. It panics if there is none that
// is a text.
func (s *Settings) Secret(name string) *string {
	all := reflect.ValueOf(s).Elem()
	for _, f := range reflect.VisibleFields(all.Type()) {
		if f.Tag.Get("env") == name && Kind(f.Tag.Get("kind")) == Secret {
			return all.FieldByIndex(f.Index).Addr().Interface().(*string)
		}
	}
	panic("setting: there is no secret " + name)
}

// ReadCloud reads and validates the variables of a function on AWS that are not in [Settings]. environ has the form
// of os.Environ. The error names each variable that is missing or invalid.
func ReadCloud(environ []string) (Cloud, error) {
	var c Cloud
	if err := parse(&c, environ); err != nil {
		return c, err
	}
	return c, errors.Join(outside(c)...)
}

// Read reads and validates the settings. environ has the form of os.Environ. The error names each invalid variable.
func Read(environ []string) (Settings, error) {
	var s Settings
	if err := parse(&s, environ); err != nil {
		return s, err
	}
	return s, s.validate()
}

func parse[T any](into *T, environ []string) error {
	if err := env.ParseWithOptions(into, env.Options{Environment: env.ToMap(environ)}); err != nil {
		return named(err, reflect.TypeFor[T]())
	}
	return nil
}

// outside returns an error for each number and time that is not between its tags low and high.
func outside(settings any) (errs []error) {
	all := reflect.ValueOf(settings)
	for _, f := range reflect.VisibleFields(all.Type()) {
		if f.Tag.Get("high") == "" {
			continue
		}
		value, low, high := all.FieldByIndex(f.Index), number(f.Tag.Get("low")), number(f.Tag.Get("high"))
		if value.Int() < low || value.Int() > high {
			errs = append(errs, fmt.Errorf("settings: %s must be between %v and %v, not %v", f.Tag.Get("env"),
				reflect.ValueOf(low).Convert(f.Type), reflect.ValueOf(high).Convert(f.Type), value))
		}
	}
	return errs
}

// number reads the text of a tag: a whole number or a time.
func number(text string) int64 {
	if d, err := time.ParseDuration(text); err == nil {
		return int64(d)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic("setting: a tag has no number: " + text)
	}
	return n
}

// named translates an error of the parser into one that has the names of the variables.
func named(err error, settings reflect.Type) error {
	var all env.AggregateError
	if !errors.As(err, &all) {
		return fmt.Errorf("settings: %w", err)
	}
	var errs []error
	for _, one := range all.Errors {
		var wrong env.ParseError
		if !errors.As(one, &wrong) {
			errs = append(errs, fmt.Errorf("settings: %w", one))
			continue
		}
		name := wrong.Name
		if f, ok := settings.FieldByName(wrong.Name); ok {
			name, _, _ = strings.Cut(f.Tag.Get("env"), ",")
		}
		errs = append(errs, fmt.Errorf("settings: %s %w", name, wrong.Err))
	}
	return errors.Join(errs...)
}

var (
	bedrockName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]*$`)
	guardrail   = regexp.MustCompile(`^([a-z0-9]+|arn:[a-z0-9-]+:bedrock:[a-z0-9-]*:[0-9]{12}:guardrail/[a-z0-9]+)` +
		`:(DRAFT|[1-9][0-9]{0,7})$`)
)

// Guardrail is the identifier and the version of a guardrail of Bedrock that is named id:version; empty for none.
func Guardrail(named string) (id, version string) {
	i := strings.LastIndex(named, ":") // an ARN has colons, too
	if i < 0 {
		return "", ""
	}
	return named[:i], named[i+1:]
}

func (s Settings) validate() error {
	var errs []error
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf("settings: %s %s", name, fmt.Sprintf(format, args...)))
	}
	if _, _, err := net.SplitHostPort(s.Addr); err != nil {
		bad("ADDR", "must be host:port, not %q", s.Addr)
	}
	if _, _, err := net.SplitHostPort(s.MetricsAddr); s.MetricsAddr != "" && err != nil {
		bad("METRICS_ADDR", "must be host:port, not %q", s.MetricsAddr)
	}
	if s.DataDir == "" {
		bad("DATA_DIR", "must not be empty")
	}
	if u, err := url.Parse(s.PublicURL); s.PublicURL != "" &&
		(err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https")) {
		bad("PUBLIC_URL", "must be an http or https URL, not %q", s.PublicURL)
	}
	errs = append(errs, outside(s)...)
	for _, list := range []struct {
		name  string
		hosts []string
	}{{"WEBHOOK_ALLOW_HOSTS", s.WebhookAllowHosts}, {"KNOWLEDGE_ALLOW_HOSTS", s.KnowledgeAllowHosts}} {
		for _, h := range list.hosts {
			if _, port, err := net.SplitHostPort(strings.TrimSpace(h)); err != nil || port == "" {
				bad(list.name, "must be a list of host:port pairs; %q is not valid", h)
			}
		}
	}
	for _, name := range s.BedrockModels {
		if !bedrockName.MatchString(strings.TrimSpace(name)) {
			bad("BEDROCK_MODELS", "must be a list of models or inference profiles; %q is not valid", name)
		}
	}
	if s.BedrockGuardrail != "" && !guardrail.MatchString(s.BedrockGuardrail) {
		bad("BEDROCK_GUARDRAIL", "must be id:version, or ARN:version, with a number or DRAFT as version, not %q",
			s.BedrockGuardrail)
	}
	s.checkTraces(bad)
	switch s.LogLevel {
	case "debug", "info", "warn", "error":
	default:
		bad("LOG_LEVEL", "must be debug, info, warn or error, not %q", s.LogLevel)
	}
	return errors.Join(errs...)
}

// checkTraces reports the errors in the settings of traces. The headers' values are secrets.
func (s Settings) checkTraces(bad func(name, format string, args ...any)) {
	if u, err := url.Parse(s.OTLPEndpoint); s.OTLPEndpoint != "" && (err != nil || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || (u.Scheme != "http" && u.Scheme != "https")) {
		bad("OTEL_EXPORTER_OTLP_ENDPOINT", "must be an http or https URL without user and query")
	}
	for _, h := range s.OTLPHeaders {
		if name, value, ok := strings.Cut(h, "="); !ok || strings.TrimSpace(name) == "" || !unescapes(value) {
			bad("OTEL_EXPORTER_OTLP_HEADERS", "must be a list of name=value pairs, with percent-encoded values")
		}
	}
	if !(s.TraceShare >= 0 && s.TraceShare <= 1) { // NaN is neither
		bad("OTEL_TRACES_SAMPLER_ARG", "must be between 0 and 1, not %g", s.TraceShare)
	}
}

func unescapes(text string) bool {
	_, err := url.PathUnescape(text)
	return err == nil
}
