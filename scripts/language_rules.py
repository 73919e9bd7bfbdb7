"""The words that Tessera's texts avoid, and what to write in their place.

A rule has a label, a pattern, the replacement, and the contexts in which the words are right. A
context is a pattern, too: a match of the rule within a match of a context is allowed. Patterns
ignore case. STARTS are rules for the first word of a comment or of a help text.
"""
import re
from collections import namedtuple

Rule = namedtuple("Rule", "label pattern advice allowed")

# What a rate or a share may refer to: "tokens a second", "bytes a rank".
RATE_UNITS = (r"tokens?|bytes|steps?|threads?|[kMGT]i?B|ns|ms|µs|s|seconds|FLOPs?|samples?|sequences|chunks?|"
              r"layers?|ranks?|once|twice|times|lines?|rows?|files?|numbers?|messages?|devices|cores|heads|"
              r"experts|groups?|copies|ids?|values?|bits|ops?|calls?|one|%")
RATE_BASES = (r"second|step|rank|stage|line|sample|token|layer|row|host|node|head|block|group|parameter|"
              r"device|element|expert|chunk|weight|micro-batch|message|hour|minute|day|direction|process")
TIMES = (r"(an? )?(about |almost |at most |less than |under |up to |some |a |an |several |the same |"
         r"no |\w+ times (as |the )?)?[\d.,{}~]* ?(s|ms|ns|µs|seconds?|minutes?|hours?|days?|weeks?|time|"
         r"times|too long|long|longer|longest|moment|bytes?|steps?|cores?|[kMG]i?B|memory|space|room|%|argument\w*|"
         r"option\w*|values?|place|part|effect|precedence|ownership|care|turns|account|advantage|more|less|half)")
PEOPLE = (r"people|users?|person|anyone|someone|those|everyone|engineers?|readers?|authors?|colleagues?|"
          r"developers?|contributors?|you|they|somebody")
ISE_RIGHT = (r"otherwise|likewise|elsewise|raise\w*|raising|noise\w*|noisy|precise\w*|exercis\w+|promis\w+|rise\w*|"
             r"rising|arise\w*|arising|wise\w*|advis\w+|revis\w+|compris\w+|concise\w*|premise\w*|supervis\w+|"
             r"surpris\w+|enterprise\w*|expertise|franchise|merchandise|compromis\w+|devis\w+|excise\w*|demise|"
             r"poise\w*|cruise\w*|bruise\w*|praise\w*|imprecise\w*|turquoise|disguise\w*|treatise\w*|"
             r"\w*(element|pair|bit|clock|step|row|column|point|token|head|layer|block)-?wise")


def rule(label, pattern, advice, *allowed):
    # A blank matches the end of a line with the indentation of the next one, too.
    def compiled(text):
        return re.compile(text.replace(" ?", r"\s*").replace(" ", r"\s+"), re.I)

    return Rule(label, compiled(pattern), advice, [compiled(a) for a in allowed])


RULES = [
    rule("stand", r"\b(stands?|stood|standing)\b", "is, appears, is listed, is stored",
         r"\bstands? for\b", r"\bstand-alone\b"),
    rule("lie", r"\b(lies?|lay|lain|sits?|sat)\b", "is at, is stored in", r"\blies? (outside|in|within|between) [\[(]"),
    rule("beside", r"\bbeside\b", "next to, in addition to, and, with"),
    rule("behind", r"\bbehind\b", "after, follows, past the end of", r"\bbehind an? (firewall|proxy)\b"),
    rule("want", r"\b(wants?|wanted|wanting)\b", "expected, needs, requires", rf"\b({PEOPLE}|I|we) (who )?(may |might )?want\w*\b"),
    rule("apart", r"\bapart\b", "separately, separate, unfused",
         r"\b(seconds?|steps?|bytes|ms|s|minutes?) apart\b", r"\bapart from\b"),
    rule("so many", r"\b(so many|as many|how many-th)\b", "N, at most, the number of",
         r"\bas many( [\w.-]+){0,6} as\b", r"\b(times|twice) as many\b"),
    rule("the least", r"\bthe least\b", "the minimum"),
    rule("nobody", r"\bnobody\b", "no rank, no thread, unused"),
    rule("who", r"\b(who|whoever|whom)\b", "the caller; name the agent", rf"\b({PEOPLE}) (who|whom)\b"),
    rule("draw", r"\b(drawn|draws?|drew)\b", "sampled, generated", r"\b(draws?|drawn) (an? |the )?(SVG|picture|chart|diagram|line)\w*"),
    rule("at hand", r"\bat hand\b", "this machine, local, available"),
    rule("go on", r"\b(go|goes|went|going|gone) on\b", "continue(s), resume(s)", r"\bgoing on between\b"),
    rule("anew", r"\banew\b", "from scratch"),
    rule("mend", r"\b(mend|mends|mended)\b", "fix"),
    rule("take", r"\b(takes?|took|taken|taking)\b", "use, choose, accept, read, need", rf"\b(takes?|took|taken|taking) {TIMES}\b",
         r"\btak(e|es|en|ing) (\w+ ){0,3}into account\b"),
    rule("as good as", r"\bas good as\b", "almost, negligible"),
    rule("nothing but", r"\bnothing but\b", "only"),
    rule("the world", r"\bthe world\b", "external error, environment", r"\bthe world (size|communicator)\b"),
    rule("say", r"\b(says?|said|saying)\b", "report, print, state, message"),
    rule("tell", r"\b(tells?|told|telling)\b", "report, print, state, message"),
    rule("word", r"\bwords?\b", "report, print, state, message",
         r"\b(split\w*|cut|tokens?|texts?|first|last|next|Philox|\d+-bit|dictionary)\b[^.;|]{0,24} words?\b",
         r"\bwords? (of|in) (a |the |its )?(text|register|sentence|corpus|dictionary)\w*\b", r"\bwords? boundar\w+"),
    rule("hear", r"\b(hears?|heard)\b", "receive"),
    rule("know", r"\b(knows?|knew)\b", "store, see, read, have", rf"\b({PEOPLE}|we|I|who) (\w+ )?(know|knew)\b", r"\bto know\b"),
    rule("believe", r"\b(believes?|believed)\b", "assume"),
    rule("like", r"\blikes\b", "prefer"),
    rule("age", r"\b(ages|aged)\b", "time out"),
    rule("born", r"\bborn\b", "created"),
    rule("die", r"\b(dies?|dying)\b", "ends", r"\b(process\w*|ranks?|jobs?|runs?|hosts?|program|launch|launcher|machine|it) (that )?(\w+ )?(dies?|dying)\b"),
    rule("life", r"\b(life|lives|lived?)\b", "lifetime; is in", r"\b(short|long)-lived\b"),
    rule("meet", r"\b(meets?|met)\b", "overlap, conflict", r"\b(meets?|met) (a|the|all|these|its) (requirement|condition|rule|bound|precondition)\w*",
         rf"\b({PEOPLE}) meet\b"),
    rule("moved on", r"\b(move|moved|moves|moving) on\b", "advanced, progressed"),
    rule("over", r"\b(is|are|was|were|be|been) over\b(?=\s*([.,;:)|]|$|and\b|in a\b|before\b|when\b))", "done, complete"),
    rule("refuse", r"\b(refuses?|refused|refusing|refusals?)\b", "reject(ed), not supported", r"\bconnections? (is |are |was )?refused\b"),
    rule("room", r"\brooms?\b", "module", r"\broom (on|in|for|left)\b", r"\b(no|enough|more|less|leaves?|make) room\b"),
    rule("house", r"\bhouses?\b", "codebase"),
    rule("circle", r"(?<!<)\bcircles?\b", "cycle"),
    rule("product", r"\bproducts?\b", "GEMM", r"\b(dot|outer|inner|scalar|Kronecker|cross) products?\b", r"\bproduct of\b"),
    rule("card", r"\bcards?\b", "GPU, device"),
    rule("twin", r"\btwins?\b", "scaled-down copy"),
    rule("sweep", r"\bsweeps? (over|through|across)\b", "pass"),  # `sweep` is a command
    rule("stretch", r"\bstretch(es)?\b", "contiguous range"),
    rule("lost rank", r"\b(ranks?|hosts?|process(es)?)\b[^.;|]{0,20}\b(loss|lost)\b|\b(loss|lost) (of )?(an?|the|one) (rank|host|process)\b",
         "failure, failed"),
    rule("is no", r"\b(is|are|was|were) no\b(?! (longer|more|less|later|larger|smaller)\b)", "is not a",
         r"\b(there|it|here|where) (is|are|was|were) no\b"),
    rule("a second", rf"\b({RATE_UNITS}) an? ({RATE_BASES})\b", "per …"),
    rule("-ise", r"\b[a-z]{3,}(isations?|is(e|ed|es|ing|er|ers))\b", "-ize, -ization", rf"\b({ISE_RIGHT})\b"),
    rule("-our", r"\b(colour\w*|behaviour\w*|favour\w*|neighbour\w*|honour\w*|labour\w*|harbour\w*|"
         r"flavour\w*|rumour\w*|vapour\w*|humour\w*|centre\w*)\b", "-or, -er"),
]

STARTS = rule("fragment", r"^(of|behind|beside|what|who)\b", "start with the noun or a verb")
