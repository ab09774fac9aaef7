//go:build integration

package local

// exceptions are the grants that stand though no program was seen to use them, as cdk.out/rights.txt writes them: with
// * for any text, and the reason. One that nothing needs any more fails the run.
var exceptions = map[string]string{
	"*FunctionServiceRole: logs:* on *":                  writesLog,
	"*FunctionServiceRole: sqs:ReceiveMessage on *Queue": takesMessages,
	"*FunctionServiceRole: sqs:DeleteMessage on *Queue":  takesMessages,
	"*FunctionServiceRole: sqs:GetQueue* on *Queue":      takesMessages,
	"PauseMachineRole: sqs:* on RunQueue":                "Step Functions sends the nudge",
	"GatewayCloudWatchRole: logs:* on *":                 "API Gateway writes the access log; the policy is AWS's own",
	"StreamTaskExecutionRole: *":                         "ECS fetches the image and writes the log",

	"ChatFunctionServiceRole: dynamodb:BatchGetItem on table/Feed": readsMany,
	"StreamTaskTaskRole: dynamodb:BatchGetItem on table/Feed":      readsMany,
}

const (
	writesLog     = "Lambda writes the function's log; the policy is AWS's own"
	takesMessages = "Lambda takes messages from the queue for the function"
	readsMany     = "who reads many streams at once may ask for all of them in one call"
)
