package dynamotable

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"agentplatform/internal/store/table"
)

// kinds are DynamoDB's error codes, of calls and of the reasons of a cancelled transaction.
var kinds = map[string]table.Kind{
	"ProvisionedThroughputExceededException": table.Throttled, "RequestLimitExceeded": table.Throttled,
	"ThrottlingException": table.Throttled, "Throttling": table.Throttled, "ThrottlingError": table.Throttled,
	"ProvisionedThroughputExceeded": table.Throttled, "TooManyRequestsException": table.Throttled,
	"TransactionConflictException": table.Contended, "TransactionConflict": table.Contended,
	"ItemCollectionSizeLimitExceededException": table.TooLarge, "ItemCollectionSizeLimitExceeded": table.TooLarge,
	"TransactionInProgressException": table.Unknown, // an earlier attempt with this token
}

func kindOf(code, message string) (kind table.Kind, known bool) {
	if (code == "ValidationException" || code == "ValidationError") &&
		(strings.Contains(message, "size has exceeded") ||
			strings.Contains(message, "exceeded the maximum allowed size")) {
		return table.TooLarge, true
	}
	kind, known = kinds[code]
	return kind, known
}

// readFailure translates the error of a read, which changes nothing.
func readFailure(err error) error {
	var api smithy.APIError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &api) && kinds[api.ErrorCode()] == table.Throttled:
		return &table.Error{Kind: table.Throttled, Err: err}
	case rejected(err):
		return err // a bug: a retry would fail, too
	default:
		return &table.Error{Kind: table.Down, Err: err}
	}
}

// writeFailure translates the error of a write that was made as one attempt. at is the index of the operation of each
// action.
func writeFailure(err error, at []int) error {
	if refused, is := errors.AsType[*types.ConditionalCheckFailedException](err); is {
		current, bad := Decode(refused.Item)
		if bad != nil {
			return bad
		}
		return &table.Refused{Conflicts: []table.Conflict{{Op: at[0], Current: current}}}
	}
	if all, is := errors.AsType[*types.TransactionCanceledException](err); is {
		return cancelled(all, at)
	}
	if api, is := errors.AsType[smithy.APIError](err); is {
		if kind, known := kindOf(api.ErrorCode(), api.ErrorMessage()); known {
			return &table.Error{Kind: kind, Err: err}
		}
	}
	switch {
	case rejected(err):
		return err
	case neverSent(err):
		return &table.Error{Kind: table.Down, Err: err}
	default: // a server error, a broken connection, a deadline: it may have been applied
		return &table.Error{Kind: table.Unknown, Err: err}
	}
}

// rejected reports whether DynamoDB rejected the request as invalid: a bug of ours. It returns false for a refusal
// without a code: its body was cut off, or it comes from a server between. DynamoDB also refuses with 400 requests that
// are to be repeated.
func rejected(err error) bool {
	var answer *smithyhttp.ResponseError
	var apiErr smithy.APIError
	return errors.As(err, &answer) && answer.HTTPStatusCode() >= 400 && answer.HTTPStatusCode() < 500 &&
		errors.As(err, &apiErr) && apiErr.ErrorCode() != unnamed
}

// unnamed is the SDK's code of an error whose body has none.
const unnamed = "UnknownError"

// neverSent reports whether no connection was made, so that nothing can have been applied.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// cancelled translates the reasons of a cancelled transaction, one for each action. A failed condition is reported
// before all other failures; contention is reported before throttling.
func cancelled(c *types.TransactionCanceledException, at []int) error {
	refused := &table.Refused{}
	found, other := map[table.Kind]bool{}, false
	for i, reason := range c.CancellationReasons {
		code := aws.ToString(reason.Code)
		kind, known := kindOf(code, aws.ToString(reason.Message))
		switch {
		case code == "" || code == "None":
		case code == "ConditionalCheckFailed" && i < len(at):
			current, err := Decode(reason.Item)
			if err != nil {
				return err
			}
			refused.Conflicts = append(refused.Conflicts, table.Conflict{Op: at[i], Current: current})
		case known:
			found[kind] = true
		default:
			other = true
		}
	}
	switch {
	case len(refused.Conflicts) > 0:
		return refused
	case found[table.TooLarge]:
		return &table.Error{Kind: table.TooLarge, Err: c}
	case other:
		return c
	case found[table.Contended]:
		return &table.Error{Kind: table.Contended, Err: c}
	case found[table.Throttled]:
		return &table.Error{Kind: table.Throttled, Err: c}
	default:
		return c
	}
}
