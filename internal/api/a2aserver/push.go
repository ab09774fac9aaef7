package a2aserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"agentplatform/internal/api/a2a"
	"agentplatform/internal/api/bridge"
	"agentplatform/internal/store/record"
)

// Push notifications of tasks are the webhooks of runs: they have their outbox, their tries and their signatures. A
// task has one configuration, as a run has one address.

// pushConfig is the address of a task's notifications, and how they authenticate.
type pushConfig struct {
	ID             string `json:"id"`
	URL            string `json:"url"`
	Token          string `json:"token"`
	Authentication struct {
		Scheme      string   `json:"scheme"`  // 1.0
		Schemes     []string `json:"schemes"` // 0.3
		Credentials string   `json:"credentials"`
	} `json:"authentication"`
}

// pushParams are the parameters of the methods about configurations, in either version.
type pushParams struct {
	pushConfig // 1.0; in 0.3 its id is the task's, unless a configuration is set

	TaskID   string      `json:"taskId"`
	Config   *pushConfig `json:"pushNotificationConfig"`   // 0.3
	ConfigID string      `json:"pushNotificationConfigId"` // 0.3
}

// Limits of a configuration, in characters of printable ASCII without spaces: tokens and credentials are values of
// headers.
const (
	maxToken       = 1024
	maxConfigID    = 128
	maxCredentials = 4096
)

// push checks a configuration and returns it in its stored form. The error is a fault, a problem about the address, or
// one of the sealer.
func (c *call) push(ctx context.Context, config pushConfig, task string) (*record.Push, error) {
	for name, v := range map[string]struct {
		text string
		most int
	}{
		"token": {config.Token, maxToken}, "id": {config.ID, maxConfigID},
		"authentication.credentials": {config.Authentication.Credentials, maxCredentials},
	} {
		if len(v.text) > v.most || strings.ContainsFunc(v.text, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, &fault{bridge.InvalidParams, fmt.Sprintf("pushNotificationConfig.%s must have at most %d "+
				"printable ASCII characters and no spaces", name, v.most)}
		}
	}
	if err := c.CheckURL(config.URL); err != nil {
		return nil, err
	}
	scheme, err := config.scheme()
	if err != nil {
		return nil, err
	}
	secrets, err := c.sealed(ctx, record.PushSecrets{
		URL: config.URL, Token: config.Token, Scheme: scheme, Credentials: config.Authentication.Credentials,
	})
	return &record.Push{
		ID: c.pushID(config.ID, task), URL: config.URL, Secrets: secrets, Form: c.Dialect.Form(), API: c.URL,
	}, err
}

// scheme is the scheme of the configuration's credentials. It is empty where there are none: a scheme alone gives us
// nothing to send. It returns a fault.
func (config pushConfig) scheme() (string, error) {
	a := config.Authentication
	if a.Credentials == "" {
		return "", nil
	}
	for _, one := range append([]string{a.Scheme}, a.Schemes...) {
		for _, known := range []string{"Bearer", "Basic"} {
			if strings.EqualFold(one, known) {
				return known, nil
			}
		}
	}
	return "", &fault{bridge.InvalidParams,
		"pushNotificationConfig.authentication: the scheme must be Bearer or Basic"}
}

// sealed are secrets in their stored form; empty where there are none.
func (c *call) sealed(ctx context.Context, s record.PushSecrets) (string, error) {
	if s.Token == "" && s.Credentials == "" {
		return "", nil
	}
	plain, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	return c.Sealer.Seal(ctx, record.PushSealedFor(c.who.Organization), string(plain))
}

// pushID is the id by which a configuration is kept. A configuration that the client does not name has the id of its
// task, which does not exist yet when the configuration is read.
func (c *call) pushID(id, task string) string {
	if id == task {
		return ""
	}
	return id
}

// pushing is a method about the configuration of a task, and returns its result. sets reports whether the request has a
// configuration.
func pushing(sets bool, do func(*call, context.Context, string, pushConfig) (any, error)) doing {
	return answering(func(c *call, ctx context.Context, in pushParams) (any, error) {
		task, config := in.TaskID, in.pushConfig
		switch {
		case c.Dialect == a2a.V10:
		case !sets:
			task, config = in.ID, pushConfig{ID: in.ConfigID}
		case in.Config == nil:
			return nil, &fault{bridge.InvalidParams, "params.pushNotificationConfig must be an object"}
		default:
			config = *in.Config
		}
		if _, err := c.run(ctx, task); err != nil {
			return nil, err
		}
		return do(c, ctx, task, config)
	})
}

func (c *call) setPush(ctx context.Context, task string, config pushConfig) (any, error) {
	push, err := c.push(ctx, config, task)
	if err == nil {
		err = c.Intake.SetPush(ctx, c.who, task, *push)
	}
	if err != nil {
		return nil, err
	}
	return c.configOf(task, *push), nil
}

func (c *call) deletePush(ctx context.Context, task string, config pushConfig) (any, error) {
	if config.ID == "" {
		return nil, &fault{bridge.InvalidParams, "the id of the push notification configuration is required"}
	}
	err := c.Intake.DeletePush(ctx, c.who, task, c.pushID(config.ID, task))
	if c.Dialect == a2a.V03 {
		return nil, err
	}
	return object{}, err
}

func (c *call) getPush(ctx context.Context, task string, config pushConfig) (any, error) {
	push, found, err := c.Intake.Push(ctx, c.who, task)
	if err == nil && (!found || config.ID != "" && c.pushID(config.ID, task) != push.ID) {
		err = &fault{taskNotFound, "the push notification configuration does not exist"}
	}
	return c.configOf(task, push), err
}

func (c *call) listPushes(ctx context.Context, task string, _ pushConfig) (any, error) {
	push, found, err := c.Intake.Push(ctx, c.who, task)
	list := []object{}
	if found {
		list = append(list, c.configOf(task, push))
	}
	if c.Dialect == a2a.V03 {
		return list, err
	}
	return object{"configs": list}, err
}

// configOf is a configuration as clients see it: without its secrets, which are for its receiver alone.
func (c *call) configOf(task string, push record.Push) object {
	config := object{"id": push.ID, "url": push.URL}
	if push.ID == "" {
		config["id"] = task
	}
	if c.Dialect == a2a.V03 {
		return object{"taskId": task, "pushNotificationConfig": config}
	}
	config["taskId"] = task
	return config
}
