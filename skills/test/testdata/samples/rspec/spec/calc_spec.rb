RSpec.describe "calc" do
  it "adds" do
    expect(1 + 2).to eq(3)
  end

  context "when wrong" do
    it "adds" do
      expect(1 + 2).to eq(4)
    end

    it "raises" do
      raise ArgumentError, "not a\nnumber"
    end
  end

  it "is pending"

  xit "is skipped" do
  end
end
