//go:build integration

package local

const readers = "who reads many streams at once may ask for all of them in one call"

// exceptions are the grants that stand though no program was seen to use them, as cdk.out/rights.txt writes them: with
// * for any text, and the reason. One that nothing needs any more fails the run.
var exceptions = map[string]string{
	"*FunctionServiceRole: logs:* on *":                            "Lambda writes the function's log; the policy is AWS's own",
	"*FunctionServiceRole: sqs:ReceiveMessage on *Queue":           "Lambda takes messages from the queue for the function",
	"*FunctionServiceRole: sqs:DeleteMessage on *Queue":            "Lambda takes messages from the queue for the function",
	"*FunctionServiceRole: sqs:GetQueue* on *Queue":                "Lambda takes messages from the queue for the function",
	"PauseMachineRole: sqs:* on RunQueue":                          "Step Functions sends the nudge",
	"GatewayCloudWatchRole: logs:* on *":                           "API Gateway writes the access log; the policy is AWS's own",
	"ChatFunctionServiceRole: dynamodb:BatchGetItem on table/Feed": readers,
	"StreamTaskTaskRole: dynamodb:BatchGetItem on table/Feed":      readers,
	"StreamTaskExecutionRole: *":                                   "ECS fetches the image and writes the log",
}
