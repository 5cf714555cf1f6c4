"""The toy world of the bundled model: people, places, things, and plots for short stories.

Used by make_stories.py. A template is a sentence in which [a|b|c] stands for one of its choices and
{slot} for a word of the story; "a" becomes "an" where the next word asks for it.
"""

import re

GIRLS = "Mia Anna Lily Rosa Emma Nora Ella Zoe Ruby Clara Ivy Maya Alice Jane Hana Lucy".split()
BOYS = "Tom Ben Max Leo Sam Jack Noah Finn Hugo Oscar Paul Adam Luke Omar Theo Peter".split()
ANIMALS = ("cat dog rabbit fox bear mouse duck owl frog horse goat hen lamb pony squirrel hedgehog "
           "turtle beaver otter robin").split()
PLACES = ("garden forest river lake park beach farm hill market school library meadow village bridge "
          "barn harbour").split()
THINGS = ("ball kite drum hat cup bell boat book lamp coat whistle bottle basket ring wagon spoon ladder "
          "flute blanket umbrella puzzle pencil bucket clock key mirror").split()
COLOURS = "red blue green yellow white black brown pink orange purple grey golden".split()
FOODS = "apple cake pear carrot cookie pie plum muffin melon bun".split()
WEATHERS = "sunny rainy windy cold warm cloudy snowy foggy".split()
TRAITS = "kind brave clever shy quiet cheerful gentle curious patient funny".split()

OPENINGS = [
    ["One {weather} [day|morning|afternoon], {name} went to the {place}.",
     "{name} was a {trait} [girl|little girl] who [loved|liked] a {colour} {thing}."],
    ["Once upon a time there was a {trait} {animal} named {name}.",
     "{name} lived near the {place} and had a {colour} {thing}."],
    ["{name} and {friend} were [best friends|good friends|neighbours].",
     "Every {weather} [day|morning], they [met|played] at the {place}."],
    ["There was a [small|little|big|old] {colour} house by the {place}.",
     "In the house lived {name}, a {trait} {animal}."],
    ["It was a {weather} [day|morning|evening] at the {place}.",
     "{name} the {animal} was [looking for|thinking about|playing with] a {colour} {thing}."],
    ["{name} had a {animal} that was very {trait}.",
     "On a {weather} [day|morning], they [walked|went] to the {place} together."],
]

PLOTS = [
    ["[But|Then] the {colour} {thing} was [gone|lost|not there].",
     "{name} looked [under the bed|behind the door|in the tall grass|near the old tree], but [it was not there|could not find it].",
     "{name} felt [sad|very sad|worried] and [sat down|began to cry].",
     "{friend} [came by|heard it|saw this] and asked, \"[What is wrong|Why are you sad|Can I help you]?\"",
     "\"I lost my {thing},\" said {name}.",
     "They [searched|looked] together, and [at last|soon|after a while] {friend} found the {thing} [behind a stone|in a bush|beside the path|under a leaf].",
     "[\"Thank you, {friend},\" said {name}.|{name} was so happy that {subject} danced.]"],
    ["{name} saw a small {other} that was stuck in [a hole|the mud|a tree|a net].",
     "The {other} was [afraid|scared|very tired] and could not [move|get out].",
     "\"[Do not be afraid|Do not worry|Stay calm],\" said {name}. \"I will help you.\"",
     "{name} [pulled and pulled|tried hard], but {subject} was not strong enough.",
     "So {subject} called {friend}, who came with a [rope|ladder|long stick].",
     "Together they [pulled|lifted] the {other} out.",
     "The {other} said thank you, and [from that day on|after that] they were friends."],
    ["[Suddenly|Then|After a while], it began to [rain|snow] and the wind [blew|was strong].",
     "{name} was [wet|cold|wet and cold] and had no [umbrella|coat|place to go].",
     "[Far away|Not far away], {subject} saw a light in a [little|small|{colour}] house.",
     "{name} [knocked|knocked softly] on the door, and {friend} opened it.",
     "\"[Come in|Please come in], it is warm here,\" said {friend}.",
     "They [drank hot milk|ate warm soup|ate a {food} together] and [waited for the sun|told each other stories].",
     "When the [rain|storm] was over, {name} went home [with a smile|happy and dry]."],
    ["{name} was [hungry|very hungry] and had only one {food}.",
     "{friend} had [nothing to eat|no food at all] and looked [sad|hungry].",
     "{name} thought about it [for a moment|for a while].",
     "Then {subject} cut the {food} in two and gave one half to {friend}.",
     "\"[You are so kind|That is very kind of you],\" said {friend}.",
     "[The next day|Later], {friend} brought a [big basket of|whole box of] {food}s to share.",
     "{name} learned that it is good to share."],
    ["{name} played with the {thing}, but [it fell down|it hit a stone] and broke.",
     "\"Oh no, my {thing} is broken!\" [said|cried] {name}.",
     "{name} did not know how to [fix|mend] it.",
     "The {other} from the {place} [was good at fixing things|knew what to do].",
     "\"We need [glue|a nail|some string] and [time|a little time],\" said the {other}.",
     "They worked [all day|until the evening], and the {thing} was [as good as new|better than before].",
     "{name} gave the {other} a {food} to say thank you."],
    ["{name} wanted to [swim|climb the big tree|sing a song|ride a bike], but {subject} was afraid.",
     "\"What if I [fall|fail]?\" {subject} [asked|thought].",
     "{friend} said, \"[Try it slowly|Take one small step|We can do it together].\"",
     "The first time [did not go well|was hard], and {name} wanted to [stop|go home].",
     "But {subject} tried [again|again and again], and {friend} [helped|watched].",
     "[At last|In the end] {name} could do it, and everyone [clapped|cheered].",
     "{name} was [proud|very proud] and not afraid any more."],
    ["{name} found a [little|strange|{colour}] box [on the road|under a tree|near the water].",
     "There was a {colour2} {thing2} in it, and a note that said, \"[Please bring me home|I belong to {friend}].\"",
     "{name} [liked|loved] the {thing2} and wanted to keep it.",
     "But {subject} knew that it was not [right|fair].",
     "So {name} [walked|ran] to {friend} and gave it back.",
     "{friend} was [full of joy|so glad] and said, \"I [looked|have looked] for it everywhere!\"",
     "They [played|had fun] with the {colour2} {thing2} until [it was dark|the sun went down]."],
]

ENDINGS = [
    "[In the evening|That night], {name} [went to bed|fell asleep] with a [happy heart|smile].",
    "It was [the best day of the year|a very good day].",
    "And they all lived happily.",
    "[Then|After that] they went home [together|before dark].",
    "{name} [told everyone|told the whole village] about it.",
    "From then on, {name} and {friend} were [always together|the best of friends].",
]

LATER = [
    "[The next day|A week later|On the next morning], {name} met {friend} at the {place}.",
    "[Some days later|One evening|On a {weather} day], {name} came back to the {place} with {friend}.",
]

FILLERS = [
    "It was a {weather} [day|morning] at the {place}.",
    "{name} [liked|wanted] to play near the {place}.",
    "[A|One] {animal} ran past the {place}.",
    "Everyone [ate|wanted] a {food}.",
    "{name} [saw|heard] a {trait} {animal}.",
    "The {animal} was [asleep|hungry|happy] [all day|in the sun|under a tree].",
    "{name} [smiled|laughed|sang a song] and [walked on|sat down].",
]


def words_to_spell():
    return ANIMALS + PLACES + THINGS + COLOURS + FOODS + WEATHERS + TRAITS


def pick_people(rng, count=1):
    """Different people, each a (name, pronoun)."""
    names = rng.sample(GIRLS + BOYS, count)
    return [(name, "she" if name in GIRLS else "he") for name in names]


def tidy(text):
    text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)
    return text[0].upper() + text[1:]


def expand(template, slots, rng):
    """One sentence of a template: choices first, then slots."""
    while "[" in template:
        template = re.sub(r"\[([^\[\]]*)\]", lambda m: rng.choice(m.group(1).split("|")), template)
    return tidy(template.format(**slots))


def new_slots(rng):
    (name, subject), (friend, _) = pick_people(rng, 2)
    animal, other = rng.sample(ANIMALS, 2)
    thing, thing2 = rng.sample(THINGS, 2)
    colour, colour2 = rng.sample(COLOURS, 2)
    return dict(name=name, subject=subject, friend=friend, animal=animal, other=other, thing=thing,
                thing2=thing2, colour=colour, colour2=colour2, place=rng.choice(PLACES),
                food=rng.choice(FOODS), weather=rng.choice(WEATHERS), trait=rng.choice(TRAITS))


def filler(rng, name):
    return expand(rng.choice(FILLERS), new_slots(rng) | {"name": name}, rng)


def tell(rng, num_plots):
    """The sentences of a story: an opening of two, then problem, help and ending of each plot."""
    slots = new_slots(rng)
    if slots["subject"] == "he":
        opening = [line.replace("girl", "boy") for line in rng.choice(OPENINGS)]
    else:
        opening = rng.choice(OPENINGS)
    templates = list(opening)
    for i, plot in enumerate(rng.sample(PLOTS, num_plots)):
        if i > 0:
            templates.append(rng.choice(LATER))
        templates += plot
    templates.append(rng.choice(ENDINGS))
    return [expand(template, slots, rng) for template in templates]
