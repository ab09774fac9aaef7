//go:build integration

package local

// exceptions has the grants that may stay although no program may be seen to use them. They are written as in
// cdk.out/rights.txt, with * for any text, and the reason. An exception that matches no grant fails the run.
var exceptions = map[string]string{
	"*FunctionServiceRole: logs:* on *":                  writesLog,
	"*FunctionServiceRole: sqs:ReceiveMessage on *Queue": takesMessages,
	"*FunctionServiceRole: sqs:DeleteMessage on *Queue":  takesMessages,
	"*FunctionServiceRole: sqs:GetQueue* on *Queue":      takesMessages,
	"PauseMachineRole: sqs:* on RunQueue":                "Step Functions sends the nudge",
	"GatewayCloudWatchRole: logs:* on *":                 "API Gateway writes the access log; the policy is AWS's own",
	"StreamTaskExecutionRole: *":                         "ECS fetches the image and writes the log",

	// Grants that a story would use only by chance, or in a fault.

	"*FunctionServiceRole: sqs:ChangeMessageVisibility on *Queue": "what is to be tried again later than its " +
		"invocation would wait",

	"*: dynamodb:ConditionCheckItem on table/Core": unitOfWork,

	"*: dynamodb:DeleteItem on table/Core": unitOfWork,

	"BrokerFunctionServiceRole: dynamodb:Query on table/Core": "a toolkit's versions, when one is added to many",

	"SweeperFunctionServiceRole: dynamodb:Query on table/Core": "the files that a run holds, when the sweeper ends it",

	"*: s3:ListBucket on Blobs": "without it a missing object is a 403 and no 404",

	"*: s3vectors:GetVectorBucket on *": "tells a missing index from a missing bucket",

	"IngestFunctionServiceRole: dynamodb:Query on table/Core": "what a budget has used, where there is one",

	"SweeperFunctionServiceRole: sqs:SendMessage on *Queue": "what is due, where its nudge was lost or is late",

	"IngestFunctionServiceRole: s3vectors:GetIndex on *": "when a collection is made by two at once",

	"*FunctionServiceRole: s3:DeleteObject on Blobs/*": objects,

	"SweeperFunctionServiceRole: s3:*Object on Blobs/*": objects,

	"JobFunctionServiceRole: s3:PutObject on Blobs/*": objects,

	"StreamTaskTaskRole: s3:GetObject on Blobs/*": objects,

	"ChatFunctionServiceRole: sqs:SendMessage on WebhookQueue": "A2A's cancel ends a run that has a webhook",

	"JobFunctionServiceRole: sqs:SendMessage on *Queue": endsRuns,

	"JobFunctionServiceRole: states:StopExecution on execution:PauseMachine:*": endsRuns,
}

const (
	writesLog     = "Lambda writes the function's log; the policy is AWS's own"
	takesMessages = "Lambda takes messages from the queue for the function"
	unitOfWork    = "part of any unit of work: each row that it depends on is put, removed or checked"
	objects       = "a value over the inline limit is an object: put, read, and removed when its commit fails"
	endsRuns      = "what is deleted may have runs that pause or have a webhook"
)
