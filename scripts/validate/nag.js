// Holds synthesized templates to the AwsSolutions and Serverless packs of cdk-nag, and their state machines to the
// validator of the Amazon States Language. Prints "finding RULE RESOURCE MESSAGE" for each finding that no resource's
// metadata explains, and "accepted RULE" for each rule that some metadata explains and that was found.
//
//	node nag.js TEMPLATE...
'use strict';
const fs = require('node:fs');
const { App, Aspects, DefaultStackSynthesizer, Stack } = require('aws-cdk-lib');
const { CfnInclude } = require('aws-cdk-lib/cloudformation-include');
const { AwsSolutionsChecks, ServerlessChecks } = require('cdk-nag');
const validate = require('asl-validator');

const found = new Set();
const where = (data) => data.resource.node.path.replace('/Template/', ' ');
const log = {
  onCompliance() {},
  onNotApplicable() {},
  onNonCompliance(data) {
    const finding = data.findingId ? ` [${data.findingId}]` : '';
    found.add(`finding ${data.ruleId}${finding} ${where(data)}: ${data.ruleInfo}`);
  },
  onSuppressed(data) { found.add(`accepted ${data.ruleId}`); },
  onError(data) { found.add(`finding ${data.ruleId} ${where(data)}: the rule failed: ${data.errorMessage}`); },
  onSuppressedError(data) { found.add(`accepted ${data.ruleId}`); },
};

const app = new App({ outdir: fs.mkdtempSync(`${require('node:os').tmpdir()}/nag-`) });
for (const file of process.argv.slice(2)) {
  const name = file.split('/').slice(-2).join('-').replace('.template.json', '').replace(/[^A-Za-z0-9-]/g, '-');
  const stack = new Stack(app, name, {
    synthesizer: new DefaultStackSynthesizer({ generateBootstrapVersionRule: false }),
  });
  new CfnInclude(stack, 'Template', { templateFile: file });
  const resources = JSON.parse(fs.readFileSync(file, 'utf8')).Resources;
  for (const [id, resource] of Object.entries(resources)) {
    if (resource.Type !== 'AWS::StepFunctions::StateMachine') continue;
    const parts = resource.Properties.DefinitionString;
    const text = typeof parts === 'string' ? parts
      : parts['Fn::Join'][1].map((p) => (typeof p === 'string' ? p : 'https://queue.example')).join('');
    const { isValid, errors } = validate.default ? validate.default(JSON.parse(text)) : validate(JSON.parse(text));
    if (!isValid) found.add(`finding ASL ${name} ${id}: ${JSON.stringify(errors)}`);
    found.add('checked ASL');
  }
}
for (const Pack of [AwsSolutionsChecks, ServerlessChecks]) {
  Aspects.of(app).add(new Pack({ reports: false, additionalLoggers: [log] }));
}
app.synth();
fs.rmSync(app.outdir, { recursive: true, force: true });
if (!found.has('checked ASL')) found.add('finding ASL: no state machine was checked');
for (const line of [...found].sort()) console.log(line);
