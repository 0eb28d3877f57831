<?php
use PHPUnit\Framework\TestCase;

final class CalcTest extends TestCase
{
    public function testAdds(): void
    {
        $this->assertSame(3, 1 + 2);
    }

    public function testAddsWrongly(): void
    {
        $this->assertSame(4, 1 + 2, 'sum');
    }

    /** @dataProvider table */
    public function testTable(int $a, int $b): void
    {
        $this->assertSame(3, $a + $b);
    }

    public function table(): array
    {
        return ['good' => [1, 2], 'bad' => [2, 2]];
    }

    public function testRaises(): void
    {
        throw new RuntimeException('no database');
    }

    public function testSkipped(): void
    {
        $this->markTestSkipped('later');
    }
}
