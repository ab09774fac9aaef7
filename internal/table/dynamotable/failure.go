package dynamotable

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"agentplatform/internal/table"
)

// throttles are the codes by which DynamoDB says "too many at once".
var throttles = map[string]bool{
	"ProvisionedThroughputExceededException": true, "RequestLimitExceeded": true, "ThrottlingException": true, "Throttling": true,
	"ThrottlingError": true, "ProvisionedThroughputExceeded": true, "TooManyRequestsException": true,
}

// readFailure translates the failure of a read, which never leaves anything behind.
func readFailure(err error) error {
	var api smithy.APIError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &api) && throttles[api.ErrorCode()]:
		return &table.Error{Kind: table.Throttled, Err: err}
	case rejected(err):
		return err // a mistake of ours: repeating it would not help
	default:
		return &table.Error{Kind: table.Down, Err: err}
	}
}

// writeFailure translates the failure of a write that was made as one attempt; at is, of each action, its operation.
func writeFailure(err error, at []int) error {
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) {
		current, bad := Decode(refused.Item)
		if bad != nil {
			return bad
		}
		return &table.Refused{Conflicts: []table.Conflict{{Op: at[0], Current: current}}}
	}
	var all *types.TransactionCanceledException
	if errors.As(err, &all) {
		return cancelled(all, at)
	}
	var api smithy.APIError
	var code string
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	switch {
	case code == "TransactionConflictException":
		return &table.Error{Kind: table.Contended, Err: err}
	case throttles[code]:
		return &table.Error{Kind: table.Throttled, Err: err}
	case code == "TransactionInProgressException": // an earlier attempt with this token, of which nothing is known yet
		return &table.Error{Kind: table.Unknown, Err: err}
	case code == "ItemCollectionSizeLimitExceededException", code == "ValidationException" && tooLarge(api.ErrorMessage()):
		return &table.Error{Kind: table.TooLarge, Err: err}
	case rejected(err):
		return err
	case neverSent(err):
		return &table.Error{Kind: table.Down, Err: err}
	default: // a server's error, a connection that broke, a deadline: it may have been done
		return &table.Error{Kind: table.Unknown, Err: err}
	}
}

func tooLarge(message string) bool {
	return strings.Contains(message, "size has exceeded") || strings.Contains(message, "exceeded the maximum allowed size")
}

// rejected says that DynamoDB answered that the request is wrong: a mistake of ours.
func rejected(err error) bool {
	var answer *smithyhttp.ResponseError
	return errors.As(err, &answer) && answer.HTTPStatusCode() >= 400 && answer.HTTPStatusCode() < 500
}

// neverSent says that no connection came about, so that nothing can have been done.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// cancelled reads the reasons, one for each action in its place. A condition that failed is a fact, whatever else was in
// the way; without one, contention comes before throttling.
func cancelled(c *types.TransactionCanceledException, at []int) error {
	refused := &table.Refused{}
	kinds := map[table.Kind]bool{}
	var other error
	for i, reason := range c.CancellationReasons {
		code := ""
		if reason.Code != nil {
			code = *reason.Code
		}
		switch {
		case code == "" || code == "None":
		case code == "ConditionalCheckFailed" && i < len(at):
			current, err := Decode(reason.Item)
			if err != nil {
				return err
			}
			refused.Conflicts = append(refused.Conflicts, table.Conflict{Op: at[i], Current: current})
		case code == "TransactionConflict":
			kinds[table.Contended] = true
		case throttles[code]:
			kinds[table.Throttled] = true
		case code == "ItemCollectionSizeLimitExceeded", code == "ValidationError" && reason.Message != nil && tooLarge(*reason.Message):
			kinds[table.TooLarge] = true
		default:
			other = c
		}
	}
	switch {
	case len(refused.Conflicts) > 0:
		return refused
	case kinds[table.TooLarge]:
		return &table.Error{Kind: table.TooLarge, Err: c}
	case other != nil:
		return other
	case kinds[table.Contended]:
		return &table.Error{Kind: table.Contended, Err: c}
	case kinds[table.Throttled]:
		return &table.Error{Kind: table.Throttled, Err: c}
	default:
		return c
	}
}
