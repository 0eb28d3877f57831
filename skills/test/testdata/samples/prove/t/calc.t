use strict;
use warnings;
use Test::More tests => 5;

is(1 + 2, 3, 'adds');
is(1 + 2, 4, 'adds wrongly');
SKIP: { skip 'later', 1; }
TODO: { local $TODO = 'not yet'; ok(0, 'to do'); }
subtest 'table' => sub {
    plan tests => 2;
    ok(1, 'good');
    is_deeply([1], [2], 'bad');
};
