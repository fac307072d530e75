package conformance

// clauseTitles are the headings of docs/contract.md, in order.
var clauseTitles = []struct{ id, title string }{
	{"C1", "A store claims what it does, and exactly that"},
	{"C2", "Every call ends with its context"},
	{"L1", "One live hold on a key"},
	{"L2", "Tokens rise"},
	{"L3", "A loss is seen before anyone else is granted"},
	{"L4", "Holds are renewed, and only holds"},
	{"L5", "A hold answers to its owner alone"},
	{"L6", "Waiting leaves nothing behind"},
	{"L7", "An owner enters again"},
	{"L8", "Waiters are served"},
	{"L9", "A lease lasts what was granted, and ends"},
	{"L10", "Different keys are different"},
	{"L11", "Close gives back"},
	{"L12", "An operator sees and revokes"},
	{"R1", "Never above the bound"},
	{"R2", "The answer is honest"},
	{"R3", "State belongs to key, algorithm and period"},
	{"R4", "What is counted stays counted"},
	{"R5", "Several limits at once"},
	{"R6", "Denials are remembered for a second"},
	{"R7", "Permits taken in advance keep the bound"},
	{"R8", "Waiting and reserving"},
	{"R9", "An outage is a decision"},
}
